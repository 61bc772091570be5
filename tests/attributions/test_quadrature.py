from __future__ import annotations

import pytest
import torch

import attribound as ab
from attribound.attributions.quadrature import RULES, rule


def error(name: str, steps: int, degree: int) -> float:
    """Of the integral of alpha^degree from 0 to 1."""
    nodes, weights = rule(name, steps)
    return abs(float((weights * nodes**degree).sum()) - 1 / (degree + 1))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("steps", [1, 2, 7, 50])
def test_weights_sum_to_one_over_nodes_inside(name, steps) -> None:
    nodes, weights = rule(name, steps)
    assert nodes.shape == weights.shape == (steps,)
    assert nodes.dtype == weights.dtype == torch.float64
    assert ((nodes > 0) & (nodes <= 1)).all()
    assert (weights > 0).all()
    assert float(weights.sum()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_gauss_legendre_is_exact_up_to_degree_2n_minus_1_and_no_further(steps) -> None:
    assert max(error("gauss_legendre", steps, d) for d in range(2 * steps)) < 1e-14
    assert error("gauss_legendre", steps, 2 * steps) > 1e-8


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_midpoint_is_exact_up_to_degree_one_and_no_further(steps) -> None:
    assert error("midpoint", steps, 1) < 1e-14
    assert error("midpoint", steps, 2) > 1e-3


@pytest.mark.parametrize("steps", [1, 4])
def test_the_right_riemann_sum_overshoots_a_line_by_half_a_step(steps) -> None:
    assert error("riemann_right", steps, 1) == pytest.approx(1 / (2 * steps))


def test_nodes_by_hand() -> None:
    assert rule("riemann_right", 4)[0].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert rule("midpoint", 2)[0].tolist() == [0.25, 0.75]
    assert rule("gauss_legendre", 2)[0].tolist() == pytest.approx([0.5 - 12**-0.5, 0.5 + 12**-0.5])


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ab.InputError, match=r"expected one of riemann_right.*got 'simpson'"):
        rule("simpson", 4)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True, "4"])
def test_steps_must_be_a_positive_whole_number(steps) -> None:
    with pytest.raises(ab.InputError, match="steps: expected a whole number of at least 1"):
        rule("midpoint", steps)
