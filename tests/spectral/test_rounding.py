from __future__ import annotations

import math

import pytest
import torch

import brute_force
import cases
from attribound.balls import unit_maximiser
from attribound.basics.tensors import norm
from attribound.operators import DenseOperator
from attribound.spectral.generalised_power import gaussians, generalised_power
from attribound.spectral.rounding import Attained, ascend, attained, best_of, hyperplanes

MATRIX = cases.random_operator(9, seed=1, batch=5, decay=0.4)
OPERATOR = DenseOperator(MATRIX)


def consistent(found: Attained) -> None:
    """The value is what the point attains."""
    image = torch.einsum("bij,bj->bi", MATRIX, found.point)
    torch.testing.assert_close(found.image, image)
    torch.testing.assert_close(found.value, norm(image))


def points(p, count=6):
    relaxed = generalised_power(OPERATOR, p, gaussians(4, 9, 0, 0), 10)
    return hyperplanes(relaxed.product, gaussians(count, 4, 0, 1), p)


@pytest.mark.parametrize("p", [2.5, 3.0, 8.0, math.inf])
def test_points_lie_on_the_ball_and_attain_their_value(p) -> None:
    found = best_of(OPERATOR, points(p))
    consistent(found)
    torch.testing.assert_close(norm(found.point, p), torch.ones(5).double())
    assert found.products == 6


def test_roundings_keep_two_over_pi_of_the_relaxation_on_average() -> None:
    relaxed = generalised_power(OPERATOR, math.inf, gaussians(4, 9, 0, 0), 200)
    many = hyperplanes(relaxed.product, gaussians(2000, 4, 0, 1), math.inf)
    mean = (torch.linalg.vector_norm(many @ MATRIX.mT, dim=2) ** 2).mean(1)
    assert (mean >= 0.99 * 2 / math.pi * relaxed.value**2).all()
    # Signs that know nothing of the relaxation do not.
    blind = gaussians(2000, 9, 0, 1).sign()
    mean = (torch.linalg.vector_norm(blind @ MATRIX.mT, dim=2) ** 2).mean(1)
    assert not (mean >= 0.99 * 2 / math.pi * relaxed.value**2).any()


@pytest.mark.parametrize("p", [2.5, 4.0, math.inf])
def test_ascent_never_falls_and_stays_on_the_ball(p) -> None:
    start = attained(OPERATOR, unit_maximiser(gaussians(5, 9, 2, 0), p))
    found = ascend(OPERATOR, start, p)
    consistent(found)
    assert (found.value >= start.value).all()
    assert (found.value > start.value * 1.01).any()
    torch.testing.assert_close(norm(found.point, p), torch.ones(5).double())
    assert found.products == 5


def test_the_best_of_all_corners_is_the_truth() -> None:
    every = brute_force.corners(9).expand(5, -1, -1)
    torch.testing.assert_close(best_of(OPERATOR, every).value, brute_force.cube(MATRIX))


def test_the_better_is_taken_example_by_example() -> None:
    a = Attained(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([1.0, 4.0]), 3)
    b = Attained(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([2.0, 3.0]), 2)
    both = a.or_better(b)
    assert both.value.tolist() == [2, 4]
    assert both.point.flatten().tolist() == both.image.flatten().tolist() == [1, 0]
    assert both.products == 5
