from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
from attribound.attributions import Linearization
from attribound.bounding.first_order import first_order, first_order_in_balls
from attribound.bounding.first_order.sensitivity import sensitivity
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.spectral import NormSolver, SpectralSolver

BALLS = [
    ab.L2Ball(0.1),
    ab.L2Ball(0.3),
    ab.LinfBall(0.05, low=0, high=1),
    ab.LinfBall(0.2, low=0, high=1),
    ab.LpBall(0.1, 1),
    ab.LpBall(0.1, 4),
]


def test_several_balls_at_once_equal_one_by_one() -> None:
    model, x = cases.tabular()
    x = x.clamp(0, 1)
    attribution = ab.InputXGradient(model)
    together = first_order_in_balls(attribution, x, BALLS)
    for ball, bound in zip(BALLS, together, strict=True):
        alone = first_order(attribution, x, ball)
        assert (bound.ball, bound.epsilon) == (ball, ball.epsilon)
        for name in ("euclidean", "adjusted", "degrees", "direction", "products"):
            torch.testing.assert_close(getattr(bound, name), getattr(alone, name), rtol=0, atol=0)
        assert (bound.source, bound.status) == (alone.source, alone.status)


def test_groups_are_put_together_again_ball_by_ball() -> None:
    model, x = cases.tabular()
    one = ab.Saliency(ab.Classifier(model, memory_limit=1))  # one example at a time
    for small, whole in zip(
        first_order_in_balls(one, x, BALLS[:2]),
        first_order_in_balls(ab.Saliency(model), x, BALLS[:2]),
        strict=True,
    ):
        torch.testing.assert_close(small.euclidean, whole.euclidean)


def test_each_problem_is_solved_once() -> None:
    matrix = cases.random_operator(12, seed=0)
    operator = cases.Counting(matrix)
    unit = UnitBalls(operator, SpectralSolver())
    spent = []
    for _ in range(3):
        assert unit.spectral is unit.spectral
        unit.norm(NormSolver(), math.inf)
        _ = unit.entrywise_sum, unit.largest_column
        spent.append(len(operator.rows))
    assert spent[0] == spent[1] == spent[2] > 0
    unit.norm(NormSolver(), 4.0)
    unit.norm(NormSolver(seed=1), 4.0)
    assert len(operator.rows) > spent[2]


def test_what_belongs_to_another_point_would_be_noticed() -> None:
    """The broken variant: solutions of one Jacobian used for another give another bound."""
    one, other = (cases.random_operator(6, seed=seed) * scale for seed, scale in ((0, 1), (1, 2)))
    x = torch.rand(1, 6).double()
    at = Linearization(x, cases.Counting(one), torch.zeros(1))
    right = sensitivity(at, ab.L2Ball(0.1), x, ab.FirstOrder())
    stale = UnitBalls(cases.Counting(other), SpectralSolver())
    wrong = sensitivity(at, ab.L2Ball(0.1), x, ab.FirstOrder(), stale)
    assert right.value.item() == pytest.approx(0.1, rel=0.02)
    assert wrong.value.item() == pytest.approx(0.2, rel=0.02)
