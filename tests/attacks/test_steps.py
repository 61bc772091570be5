from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks import Ascend, AtInput, InBall, Jump, LinearOptimum, Nearby
from attribound.attacks.objectives import Problem
from attribound.attacks.steps import Here

SLOPE = torch.tensor([[3.0, -4.0], [0.0, 0.0]]).double()
ZERO = torch.zeros(2, 2).double()
AT_INPUT = Here(ZERO, ZERO, SLOPE)


def problem() -> Problem:
    attribution, x = cases.quadratic([4.0, 1.0, 0.5])
    target = torch.zeros(2, dtype=torch.long)
    return Problem(attribution, x, target, attribution(x, target))


def test_ascend_follows_the_norm_of_the_ball() -> None:
    step = Ascend(0.5)
    assert step.move(ab.L2Ball(1), AT_INPUT, 10)[0].tolist() == pytest.approx([0.3, -0.4])
    assert step.move(ab.LinfBall(1), AT_INPUT, 10)[0].tolist() == [0.5, -0.5]
    default = Ascend().move(ab.L2Ball(2), AT_INPUT, 10)[0]
    assert default.norm().item() == pytest.approx(2.5 * 2 / 10)


def test_jump_goes_to_the_sphere_and_stays_without_a_slope() -> None:
    here = Here(ZERO, torch.full((2, 2), 0.25).double(), SLOPE)
    moved = Jump().move(ab.L2Ball(2), here, 10)
    assert moved.tolist() == [pytest.approx([1.2, -1.6]), [0.25, 0.25]]


def test_starts() -> None:
    task, ball = problem(), ab.L2Ball(0.1)
    (zero,) = AtInput().begin(task, ball, 0).deltas
    assert zero.abs().max() == 0
    one, two = InBall(2).begin(task, ball, 0).deltas
    assert not torch.equal(one, two)
    (near,) = Nearby(1e-3).begin(task, ball, 0).deltas
    assert 0 < near.abs().max() < 0.01
    optimum = LinearOptimum().begin(task, ball, 0)
    plus, minus = optimum.deltas
    assert torch.equal(plus, -minus)
    torch.testing.assert_close(
        (plus @ cases.rotation(3)[:, 0]).abs(), torch.full((2,), 0.1).double(), rtol=1e-2, atol=0
    )
    assert optimum.evaluations >= 2


@pytest.mark.parametrize("size", [0, -1, math.nan])
def test_refuses_a_step_that_goes_nowhere(size) -> None:
    with pytest.raises(ab.InputError, match="step size: expected a number above 0"):
        Ascend(size)
