from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
import laws


@pytest.mark.parametrize("p", [3.0, 4.0, 10.0])
def test_corollary_1_scales_with_the_dimension_and_holds(p) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    ball = ab.LpBall(0.1, p)
    bound = ab.bound(attribution, x, ball, method=ab.FirstOrder(norm=None))
    truth = torch.full((2,), 0.5 * 4 ** (0.5 - 1 / p)).double()
    torch.testing.assert_close(bound.euclidean, truth)
    assert bound.source == ("corollary 1",) * 2
    laws.attack_below(ab.attacks.AttributionAscent()(attribution, x, ball), bound)


def test_corollary_1_is_attained_when_the_top_vector_is_a_corner() -> None:
    size = 4
    ones = torch.ones(size, size).double() / size
    model = cases.Quadratic(torch.stack([3 * ones, 0 * ones]), torch.eye(2, size).double())
    attribution, x = ab.Saliency(model), torch.full((1, size), 0.5).double()
    bound = ab.bound(attribution, x, ab.LinfBall(0.1), method=ab.FirstOrder(dense=False, norm=None))
    found = ab.attacks.AttributionAscent()(attribution, x, ab.LinfBall(0.1))
    torch.testing.assert_close(bound.euclidean.item(), 0.1 * 3 * math.sqrt(size))
    torch.testing.assert_close(found.deviation, bound.euclidean)
