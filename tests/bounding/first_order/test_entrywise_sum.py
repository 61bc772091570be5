from __future__ import annotations

import itertools

import pytest
import torch

import attribound as ab
import cases
import laws
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.operators import DenseOperator


def at_corners(matrix):
    """The largest |J delta| over all corners of the unit cube, by trying them."""
    corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=matrix.shape[-1]))).double()
    return (corners @ matrix.mT).norm(dim=-1).amax(-1)


@pytest.mark.parametrize("size", [1, 2, 5, 10])
def test_is_an_upper_bound_on_all_corners(size) -> None:
    matrix = cases.random_operator(size, seed=size, batch=20, decay=0.5)
    laws.never_below(entrywise_sum(DenseOperator(matrix)), at_corners(matrix))


def test_equals_the_formula_of_the_paper() -> None:
    matrix = cases.random_operator(600, seed=0, batch=2)
    expected = (matrix.mT @ matrix).abs().sum((1, 2)).sqrt()
    torch.testing.assert_close(entrywise_sum(DenseOperator(matrix)), expected)


def test_p_is_j_transposed_times_j() -> None:
    """J = e1 1ᵀ, d = 12: the truth is 12; J Jᵀ would give 3.46, below it."""
    matrix = torch.zeros(1, 12, 12).double()
    matrix[0, 0] = 1
    assert at_corners(matrix).item() == 12
    torch.testing.assert_close(entrywise_sum(DenseOperator(matrix)).item(), 12.0)
    wrong = entrywise_sum(DenseOperator(matrix.mT))
    assert wrong.item() == pytest.approx(3.4641, rel=1e-4)
    with pytest.raises(AssertionError):
        laws.never_below(wrong, at_corners(matrix))


def test_is_attained_where_signs_agree() -> None:
    """A diagonal saliency: every corner attains the bound."""
    diagonal = torch.diag(torch.tensor([3.0, 2.0, 1.0])).double()
    model = cases.Quadratic(torch.stack([diagonal, 0 * diagonal]), torch.eye(2, 3).double())
    attribution, x, ball = ab.Saliency(model), torch.ones(2, 3).double(), ab.LinfBall(0.1)
    bound = ab.bound(attribution, x, ball)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    torch.testing.assert_close(bound.euclidean, torch.full((2,), 0.1 * 14**0.5).double())
    torch.testing.assert_close(found.deviation, bound.euclidean)
    assert bound.source == ("theorem 2",) * 2
    assert (bound.products >= 3).all()
