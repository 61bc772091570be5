from __future__ import annotations

import math

import pytest
import torch

import brute_force
import cases
from attribound.operators import DenseOperator
from attribound.spectral.dual_certificate import dense_certificate, weights
from attribound.spectral.generalised_power import gaussians, generalised_power
from attribound.spectral.surrogate import Surrogate, nystroem, promising, refine

MATRIX = cases.random_operator(40, seed=2, batch=3, decay=0.7)
GRAM = MATRIX.mT @ MATRIX


def relaxed(p=math.inf, rank=5, iterations=3):
    return generalised_power(DenseOperator(MATRIX), p, gaussians(rank, 40, 0, 0), iterations)


def below(half) -> None:
    """P - F^T F has no negative eigenvalue."""
    assert torch.linalg.eigvalsh(GRAM - half.mT @ half).min() > -1e-9


def test_equal_to_p_where_it_was_seen_and_never_above() -> None:
    seen = relaxed()
    surrogate = nystroem(seen.factors, seen.images)
    # To the share below which directions are left out as rounding.
    torch.testing.assert_close(surrogate.gram(seen.factors), seen.images, rtol=0.0, atol=3e-2)
    first = slice(0, 5)
    torch.testing.assert_close(
        surrogate.gram(seen.factors[:, first]), seen.images[:, first], rtol=0.0, atol=1e-2
    )
    below(surrogate.half)
    with pytest.raises(AssertionError):
        below(1.01 * surrogate.half)


def test_exact_when_the_rank_is_small() -> None:
    thin = torch.zeros_like(MATRIX)
    thin[:, :4] = MATRIX[:, :4]
    seen = generalised_power(DenseOperator(thin), math.inf, gaussians(6, 40, 0, 0), 2)
    surrogate = nystroem(seen.factors, seen.images)
    torch.testing.assert_close(surrogate.half.mT @ surrogate.half, thin.mT @ thin)


def test_zero_stays_zero() -> None:
    surrogate = nystroem(torch.ones(1, 3, 4), torch.zeros(1, 3, 4))
    assert surrogate.half.abs().max() == 0


@pytest.mark.parametrize("p", [3.0, math.inf])
def test_refining_tightens_the_certificate_without_products(p) -> None:
    seen = relaxed(p)
    surrogate = nystroem(seen.factors, seen.images)
    _, row_norms = refine(surrogate, seen, p)
    assert (row_norms >= seen.row_norms).all()
    operator = DenseOperator(MATRIX)
    before = dense_certificate(operator, weights(seen.row_norms, p), p)
    after = dense_certificate(operator, weights(row_norms, p), p)
    assert after.mean() < before.mean()


def test_promising_points_are_local_optima_the_best_first() -> None:
    matrix = cases.random_operator(8, seed=0, batch=2, decay=0.3)
    surrogate = Surrogate(matrix)
    starts = gaussians(200, 8, 0, 0).sign().expand(2, -1, -1)
    found = promising(surrogate, starts, math.inf, 3)
    assert found.shape == (2, 3, 8)
    torch.testing.assert_close(surrogate.values(found)[:, 0], brute_force.cube(matrix))
    assert (surrogate.values(found).diff(dim=1) <= 0).all()
