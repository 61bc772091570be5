from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from attribound.auditing import Cell
from attribound.auditing.rows import SCHEMA
from paper_synthetic import texts
from reproduction.paper.figures.gaps import Gaps, draw_gaps, gaps_of


def rows(samples, bound, attack, error=None) -> Cell:
    known = {"batch": 0, "label": 0, "attribution": "ig", "ball": "l2", "epsilon": 0.1}
    failed = error or [None] * len(samples)
    listed = [
        {
            **known,
            "sample": sample,
            "features": 4,
            "error": why,
            "bounds": [{"claim": "first_order", "euclidean": most}],
            "attacks": [],
            "strongest": {"by": "pgd", "deviation": far},
        }
        for sample, most, far, why in zip(samples, bound, attack, failed, strict=True)
    ]
    return Cell("ig", "l2", 0.1, pa.Table.from_pylist(listed, schema=SCHEMA))


PAPER = rows([1, 2, 3], [1.0, 2.0, 3.0], [0.5, 0.5, 3.5])


def test_gaps_are_differences_to_the_bound_of_the_same_sample() -> None:
    # The other run has its own order, its own bound and a sample more.
    strong = rows([3, 9, 1], [9.0, 9.0, 9.0], [4.0, 1.0, 0.75])
    found = gaps_of(PAPER, strong)
    np.testing.assert_allclose(found.paper, [0.5, 1.5, -0.5])
    np.testing.assert_allclose(found.strong, [-1.0, 0.25])
    # Matched by place instead of by sample, they would be others.
    assert not np.allclose(found.strong, np.array([1.0, 3.0]) - [4.0, 0.75])


def test_failed_samples_and_infinite_bounds_are_in_no_gap() -> None:
    paper = rows([1, 2, 3], [1.0, None, math.inf], [0.5, None, 1.0], [None, "failed", None])
    found = gaps_of(paper, rows([1, 2, 3], [1.0] * 3, [None, 1.0, 1.0]))
    np.testing.assert_allclose(found.paper, [0.5])
    assert len(found.strong) == 0
    assert found.unbounded == 1
    assert len(gaps_of(PAPER, None).strong) == 0


def test_where_the_attack_stayed_at_the_input_there_is_no_gap() -> None:
    paper = rows([1, 2], [1.0, 2.0], [0.0, 0.5])
    np.testing.assert_allclose(gaps_of(paper, None).paper, [1.5])


def test_the_histograms_hold_every_sample_and_break_at_zero() -> None:
    random = np.random.default_rng(0)
    gaps = Gaps(random.uniform(0.2, 1, 40), random.uniform(-0.3, 0.6, 30), unbounded=2)
    figure = draw_gaps("CIFAR-10", {"at": gaps}, {"ce": "make zoo"})
    (axes,) = figure.axes
    bars = [patch for patch in axes.patches if hasattr(patch, "get_height")]
    assert sum(bar.get_height() for bar in bars) == 40
    below = sum(bar.get_height() for bar in bars if bar.get_x() < -1e-9)
    assert below == 0
    edges = [bar.get_x() for bar in bars]
    assert min(abs(edge) for edge in edges) < 1e-12
    exceeded = int((gaps.strong < 0).sum())
    assert axes.get_xlabel() == f"$T_e$ - deviation   [paper 0/40, ours {exceeded}/30]"
    assert axes.get_title() == "AT"
    assert "Left out: CE (make zoo)" in texts(figure)
    assert "2 samples have an infinite bound" in texts(figure)


@pytest.mark.parametrize("values", [[], [0.0, 0.0]])
def test_a_model_without_spread_is_drawn(values) -> None:
    gaps = Gaps(np.array(values), np.array([]))
    assert len(draw_gaps("MNIST", {"at": gaps}, {}).axes) == 1


def test_without_any_model_the_figure_says_so() -> None:
    figure = draw_gaps("MNIST", {}, {"at": "make zoo"})
    assert not figure.axes
    assert "MNIST: no runs to draw gaps from. Left out: AT (make zoo)" in texts(figure)
