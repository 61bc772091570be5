from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import brute_force
import cases
import laws
from attribound.operators import ColumnScaled, DenseOperator
from attribound.spectral.dual_certificate import (
    certificate,
    dense_certificate,
    hoelder_factor,
    weights,
)

MATRIX = cases.random_operator(8, seed=3, batch=6, decay=0.6)
TIGHT = ab.SpectralSolver(tolerance=1e-9, seed=5)
ORDERS = [2.5, 3.0, 4.0, 8.0, math.inf]


def truth(p):
    return brute_force.cube(MATRIX) if p == math.inf else brute_force.ball(MATRIX, p)


def random_weights(seed):
    draw = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed)).double()
    return (2 * draw).exp()


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
def test_scaled_columns_obey_every_law(law) -> None:
    law(ColumnScaled(DenseOperator(MATRIX), random_weights(0)))


def test_scaled_columns_are_those_of_the_dense_matrix() -> None:
    scale = random_weights(1)
    operator = ColumnScaled(DenseOperator(MATRIX), scale)
    laws.equals_dense(operator, MATRIX * scale.unsqueeze(1))
    with pytest.raises(AssertionError):
        laws.equals_dense(operator, MATRIX * scale.unsqueeze(2))


@pytest.mark.parametrize("p", ORDERS)
def test_any_positive_weights_give_an_upper_value(p) -> None:
    norm = truth(p)
    for seed in range(20):
        y = random_weights(seed)
        found = certificate(DenseOperator(MATRIX), y, p, TIGHT)
        laws.never_below(found.upper, norm)
        exact = dense_certificate(DenseOperator(MATRIX), y, p)
        torch.testing.assert_close(found.upper, exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("p", ORDERS)
def test_a_certificate_that_forgets_half_of_its_weights_is_caught(p) -> None:
    """The scaling with y, the factor with y / 2; and the factor of another order."""
    y = weights(torch.ones(6, 8).double(), p)
    sigma = torch.linalg.svdvals(MATRIX * y.rsqrt().unsqueeze(1))[:, 0]
    laws.never_below(sigma * hoelder_factor(y.rsqrt(), p), truth(p))
    with pytest.raises(AssertionError):
        laws.never_below(sigma * hoelder_factor((y / 2).rsqrt(), p), truth(p))
    with pytest.raises(AssertionError):
        laws.never_below(sigma * hoelder_factor(y.rsqrt(), 2.0), truth(p))


def test_the_ritz_value_in_place_of_the_upper_one_is_caught() -> None:
    """On diagonal matrices the best weights are known and exact: nothing is left to hide in."""
    entries = torch.linspace(1, 2, 60).double()
    y = (entries**2).unsqueeze(0)
    operator = DenseOperator(torch.diag(entries).unsqueeze(0))
    norm = torch.linalg.vector_norm(entries).unsqueeze(0)
    laws.never_below(certificate(operator, y, math.inf, TIGHT).upper, norm)
    noisy = y * torch.linspace(0.8, 1.2, 60).double()
    short = ab.SpectralSolver(max_iterations=2)
    found = certificate(operator, noisy, math.inf, short)
    laws.never_below(found.upper, dense_certificate(operator, noisy, math.inf))
    ritz = found.spectral.value.lower * hoelder_factor(noisy.rsqrt(), math.inf)
    with pytest.raises(AssertionError):
        laws.never_below(ritz, dense_certificate(operator, noisy, math.inf))


@pytest.mark.parametrize("p", [2.0, *ORDERS])
def test_the_factor_is_attained(p) -> None:
    """sqrt(sum y d^2) over the p-ball: Diag(1 / scale), whose norm is known."""
    scale = random_weights(4)[:1]
    expected = (1 / scale).max() if p == 2 else brute_force.diagonal(1 / scale[0], p)
    assert hoelder_factor(scale, p).item() == pytest.approx(float(expected))


@pytest.mark.parametrize("p", ORDERS)
def test_weights_of_a_diagonal_operator_are_optimal(p) -> None:
    """There P V is known at the optimum, and so the exact norm comes out."""
    entries = torch.tensor([3.0, 1.0, 2.0, 0.5]).double()
    length = entries**0 if p == math.inf else entries ** (2 / (p - 2))
    y = weights((entries**2 * length).unsqueeze(0), p, regulariser=1e-12)
    upper = dense_certificate(DenseOperator(torch.diag(entries).unsqueeze(0)), y, p)
    assert upper.item() == pytest.approx(brute_force.diagonal(entries, p), rel=1e-9)


def test_weights_are_positive_and_those_of_zero_are_ones() -> None:
    rows = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1e-30, 1.0]])
    assert weights(rows, math.inf)[0].tolist() == [1, 1, 1]
    assert (weights(rows, 3.0) > 0).all()


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("factor", [2.0**-900, 2.0**900])
def test_weights_are_shares_whatever_the_size_of_the_rows(p, factor) -> None:
    """Of rows whose powers and sums would leave the range of numbers, too."""
    rows = random_weights(3)
    torch.testing.assert_close(weights(factor * rows, p), weights(rows, p), rtol=1e-12, atol=0)
    assert (weights(rows, p) < 1.02).all()
