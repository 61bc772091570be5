from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
import laws


@pytest.mark.parametrize("eigenvalues", [[-5.0, 3.0, 1.0], [2.0, 2.0, -2.0, 0.5], [7.0]])
def test_theorem_1_is_attained_on_a_quadratic(eigenvalues) -> None:
    """There the saliency is linear, so first order is the whole truth."""
    attribution, x = cases.quadratic(eigenvalues)
    ball = ab.L2Ball(0.1)
    bound = ab.bound(attribution, x, ball)
    truth = torch.full((2,), 0.1 * max(map(abs, eigenvalues))).double()
    torch.testing.assert_close(bound.euclidean, truth)
    torch.testing.assert_close(bound.adjusted, truth)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    torch.testing.assert_close(found.deviation, truth, rtol=1e-3, atol=0)
    laws.attack_below(found, bound)
    assert bound.source == ("theorem 1",) * 2


def test_direction_is_the_right_singular_vector() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    direction = ab.bound(attribution, x, ab.L2Ball(0.1)).direction
    top = cases.rotation(3)[:, 0]
    torch.testing.assert_close((direction @ top).abs(), torch.ones(2).double())


def test_direction_is_not_the_left_one() -> None:
    """A linear attribution with J = e1 1ᵀ: v = 1 / sqrt(d), u = e1."""
    matrix = torch.zeros(4, 4).double()
    matrix[0] = 1
    attribution = ab.FunctionAttribution(lambda x, target: x @ matrix.T)
    bound = ab.bound(attribution, torch.rand(2, 4).double(), ab.L2Ball(0.1), target=0)
    torch.testing.assert_close(bound.direction.abs(), torch.full((2, 4), 0.5).double())
    torch.testing.assert_close(bound.adjusted, torch.full((2,), 0.2).double())


def test_smaller_p_lies_within_the_l2_ball() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    inside = ab.bound(attribution, x, ab.LpBall(0.1, 1.5))
    torch.testing.assert_close(inside.euclidean, ab.bound(attribution, x, ab.L2Ball(0.1)).euclidean)
    assert inside.source == ("theorem 1, ball within the l2 ball",) * 2
