from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attribound as ab
import laws
from attribound.tensors import dot, norm

BALLS = [
    ab.L2Ball(0.3),
    ab.LinfBall(0.3),
    ab.LpBall(0.3, 1),
    ab.LpBall(0.3, 1.5),
    ab.LpBall(0.3, 7),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BALLS), st.lists(st.floats(-1e3, 1e3, width=32), min_size=6, max_size=6))
def test_maximiser_reaches_the_dual_norm(ball, numbers) -> None:
    """Hoelder: the largest inner product over the ball is epsilon times the dual norm."""
    slope = torch.tensor(numbers).double().reshape(1, 2, 3)
    dual = {1: math.inf, math.inf: 1}.get(ball.p) or ball.p / (ball.p - 1)
    delta = ball.maximiser(slope)
    laws.inside(delta, ball)
    torch.testing.assert_close(
        dot(slope, delta), ball.epsilon * norm(slope, dual), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize("ball", BALLS)
def test_maximiser_of_nothing_is_finite_and_inside(ball) -> None:
    delta = ball.maximiser(torch.zeros(2, 4))
    assert torch.isfinite(delta).all()
    laws.inside(delta, ball)


@pytest.mark.parametrize("ball", BALLS)
def test_contains_is_per_example(ball) -> None:
    edge = ball.maximiser(torch.tensor([[3.0, -1.0, 2.0]]))
    assert ball.contains(torch.cat([edge, 1.001 * edge])).tolist() == [True, False]


def test_balls_are_values() -> None:
    assert ab.LinfBall(0.1) == ab.LpBall(0.1, math.inf) != ab.L2Ball(0.1)
    assert len({ab.L2Ball(0.1), ab.LpBall(0.1, 2), ab.L2Ball(1)}) == 2
    assert ab.L2Ball(0.1) != 0.1
    assert (repr(ab.L2Ball(0.1)), ab.LinfBall(1).p) == ("L2Ball(epsilon=0.1)", math.inf)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf])
def test_refuses_a_radius_that_makes_no_ball(epsilon) -> None:
    with pytest.raises(ab.InputError, match="epsilon: expected a finite radius above 0, got"):
        ab.L2Ball(epsilon)


@pytest.mark.parametrize("p", [0.99, 0, -1, math.nan])
def test_refuses_what_is_no_norm(p) -> None:
    with pytest.raises(ab.InputError, match="p: expected the order of a norm"):
        ab.LpBall(0.1, p)


@pytest.mark.parametrize("epsilon", ["wide", None, torch.ones(3)])
def test_refuses_a_radius_that_is_no_number(epsilon) -> None:
    with pytest.raises(ab.InputError, match="epsilon: expected a number"):
        ab.LinfBall(epsilon)
