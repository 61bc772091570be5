from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from attribound.auditing import Cell
from attribound.auditing.rows import SCHEMA
from paper_synthetic import eta, texts
from reproduction.paper.figures.gaps import Gaps, draw_gaps, gaps_of
from reproduction.paper.figures.remainder import curve, draw_remainders


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


def test_a_curve_has_the_percentiles_over_samples_at_each_radius() -> None:
    radii, (low, middle, high) = curve(eta(), "ascent", "eta")
    np.testing.assert_allclose(radii, [0.01, 0.02, 0.04])
    factors = 10 * np.arange(1, 6)
    for level, share in ((low, 10), (middle, 50), (high, 90)):
        np.testing.assert_allclose(level, np.percentile(factors, share) * radii**2)
    # Perturbations of the other kind are other numbers.
    assert curve(eta(), "random", "eta")[1][1][0] < middle[0]


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = eta().sort_by([("eta", "descending")])
    np.testing.assert_allclose(
        curve(shuffled, "random", "eta")[1], curve(eta(), "random", "eta")[1]
    )


def test_the_lines_are_these_curves_and_the_title_their_ratio() -> None:
    figure = draw_remainders("CIFAR-10", {"at": eta(), "trades": eta()}, {"ce": "make zoo"})
    first, second = figure.axes
    lines = {line.get_label(): line for line in first.get_lines()}
    for by in ("random", "ascent"):
        name = "attack" if by == "ascent" else by
        for column, label in (("eta", "η"), ("deviation", "deviation")):
            radii, levels = curve(eta(), by, column)
            expected = np.stack([radii, levels[1]], axis=1)
            np.testing.assert_allclose(lines[f"{label}, {name}"].get_xydata(), expected)
    np.testing.assert_allclose(lines[r"$\|g(x)\|$"].get_ydata(), 3.0)
    assert first.get_title() == "AT\nrandom 4%, attack 4%"
    assert second.get_title().startswith("TRADES")
    assert first.get_ylim() == second.get_ylim()
    assert "Left out: CE (make zoo)" in texts(figure)


def test_models_of_any_scale_are_within_the_axes() -> None:
    def scaled(factor: float) -> pa.Table:
        table = eta()
        for name in ("eta", "deviation", "attribution_norm"):
            values = pc.multiply(table[name], factor)
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    figure = draw_remainders("MNIST", {"ce": scaled(1), "at": scaled(1e-3), "art": scaled(10)}, {})
    for axes in figure.axes:
        low, high = axes.get_ylim()
        drawn = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
        assert low < drawn.min() < drawn.max() < high


def test_attributions_that_did_not_move_have_no_ratio() -> None:
    still = eta().set_column(
        eta().column_names.index("deviation"), "deviation", pa.array([0.0] * eta().num_rows)
    )
    assert pc.sum(still["deviation"]).as_py() == 0
    assert draw_remainders("MNIST", {"at": still}, {}).axes[0].get_title() == "AT\n"


def test_without_any_record_the_figure_says_so() -> None:
    figure = draw_remainders("MNIST", {}, {"at": "make zoo"})
    assert not figure.axes
    assert "no records of eta" in texts(figure)
