from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attribound as ab
import laws
from attribound.balls import project
from attribound.basics.tensors import dot, norm

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
    delta = ball.maximiser(slope, slope)
    laws.inside(delta, ball)
    torch.testing.assert_close(
        dot(slope, delta), ball.epsilon * norm(slope, dual), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize("ball", BALLS)
def test_maximiser_of_nothing_is_finite_and_inside(ball) -> None:
    slope = torch.zeros(2, 4)
    delta = ball.maximiser(slope, slope)
    assert torch.isfinite(delta).all()
    laws.inside(delta, ball)


@pytest.mark.parametrize("ball", BALLS)
def test_contains_is_per_example(ball) -> None:
    slope = torch.tensor([[3.0, -1.0, 2.0]])
    edge = ball.maximiser(slope, slope)
    both = torch.cat([edge, 1.001 * edge])
    assert ball.contains(both, both).tolist() == [True, False]
    assert ball.contains(both, both, tolerance=0.01).tolist() == [True, True]


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


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(BALLS), st.lists(st.floats(-2, 2), min_size=6, max_size=6))
def test_projection_is_the_nearest_point(ball, numbers) -> None:
    """Inside stays; outside lands on the sphere, and no nearby point of the ball is nearer."""
    delta = torch.tensor([numbers], dtype=torch.float64)
    found = project(delta, ball.epsilon, ball.p)
    laws.inside(found, ball)
    if norm(delta, ball.p) <= ball.epsilon:
        assert torch.equal(found, delta)
        return
    distance = (found - delta).norm()
    generator = torch.Generator().manual_seed(0)
    nudges = 1e-3 * torch.randn(50, 6, generator=generator, dtype=torch.float64)
    others = project_by_scaling(found + nudges, ball)
    assert ((others - delta).norm(dim=1) >= distance - 1e-6).all()


def project_by_scaling(delta, ball):
    """Some point of the ball, not the nearest."""
    return delta * (ball.epsilon / norm(delta, ball.p)).clamp(max=1).unsqueeze(1)


def test_projection_keeps_the_range() -> None:
    ball = ab.L2Ball(0.5, low=0, high=1)
    x = torch.tensor([[0.1, 0.9]]).double()
    delta = ball.project(torch.tensor([[-3.0, 4.0]]).double(), x)
    torch.testing.assert_close(x + delta, torch.tensor([[0.0, 1.0]]).double())
    laws.inside(delta, ball)
    ball.check_inside(x)
    with pytest.raises(ab.InputError, match="x: expected values from 0 to 1, the range"):
        ball.check_inside(x + 1)


def test_ranges_and_units_are_those_of_the_numbers_of_x() -> None:
    """In float64 0.9 is no float32: a ball that ends there instead leaves points out."""
    x = torch.tensor([[0.1, 0.5, 0.9]], dtype=torch.float64)
    ball = ab.LinfBall(3.0, low=0.1, high=0.9)
    ball.check_inside(x)
    low, high = ball.limits(x)
    far = torch.full_like(x, 2.0)
    assert (x + high).tolist() == [[0.9, 0.5 + (0.9 - 0.5), 0.9]]
    assert low.tolist() == [[0.0, 0.1 - 0.5, 0.1 - 0.9]]
    assert (x + ball.clip(far, x)).tolist() == [[0.9] * 3]
    assert (x + ball.project(-far, x)).min().item() == 0.1
    scaled = ab.LinfBall(1.0, scale=0.3)
    assert scaled.limits(x)[1].tolist() == [[0.3] * 3]
    assert ab.LinfBall(1.0, low=0.1, high=0.1 + 1e-12).limited
    narrow = x.float().clamp(0.1, 0.9)
    ball.check_inside(narrow)
    assert (narrow + ball.clip(far.float(), narrow)).max() == torch.tensor(0.9)


def test_ranges_are_part_of_the_value() -> None:
    assert ab.LinfBall(0.1, low=0, high=1) != ab.LinfBall(0.1)
    assert repr(ab.LpBall(0.1, 3, low=0)) == "LpBall(epsilon=0.1, p=3.0, low=0.0)"
    with pytest.raises(ab.InputError, match="range: expected low below high"):
        ab.L2Ball(0.1, low=1, high=0)
    with pytest.raises(ab.InputError, match="low: expected a number"):
        ab.L2Ball(0.1, low="black")


@settings(max_examples=80, deadline=None)
@given(
    p=st.sampled_from([1.0, 1.5, 2.0, 3.0, math.inf]),
    epsilon=st.floats(1e-9, 3.0),
    limits=st.sampled_from([(None, None), (0.0, 1.0), (0.0, None), (-0.3, 1.1)]),
    scale=st.sampled_from([None, 0.1, torch.tensor([0.3, 0.0, 7.0, 1e-3, 1.0, 0.1])]),
    kind=st.tuples(
        st.sampled_from([1e-6, 1e-2, 1.0]), st.sampled_from([torch.float32, torch.float64])
    ),
    seed=st.integers(0, 10**6),
)
def test_projections_are_inside_after_rounding(p, epsilon, limits, scale, kind, seed) -> None:
    """Exactly, of the perturbation and of what the network gets: also where ulps are the radius."""
    generator, (size, dtype) = torch.Generator().manual_seed(seed), kind
    x = (size * torch.rand(4, 6, generator=generator)).to(dtype)
    x[0, 0], x[1, 1] = 0.0, x.max()
    delta = 4 * epsilon * torch.randn(4, 6, generator=generator).to(dtype)
    delta[3] = torch.where(delta[3] < 0, -epsilon, epsilon)
    ball = ab.LpBall(epsilon, p, *limits, scale=scale)
    found = ball.project(delta, x)
    laws.inside_exactly(found, x, ball)
    torch.testing.assert_close(ball.project(found, x), found)
    if scale is None and limits == (None, None) and epsilon > 1e-4:  # and no further than needed
        assert (
            norm(found, p) >= torch.minimum(norm(delta, p), torch.tensor(epsilon)) * 0.999
        ).all()


def test_rounding_to_the_nearest_number_leaves_the_ball() -> None:
    """So that the law above is about something."""
    x, ball = torch.full((1, 6), 0.7), ab.L2Ball(1e-7)
    with pytest.raises(AssertionError):
        laws.inside_exactly(ball.maximiser(torch.ones_like(x), x), x, ball)
