from __future__ import annotations

import math

import pytest
import torch

import cases
from attribound.operators import DenseOperator
from attribound.spectral.generalised_power import (
    Relaxed,
    full_rank,
    gaussians,
    generalised_power,
    maximiser,
)

ORDERS = [2.5, 3.0, 4.0, 8.0, math.inf]
MATRIX = cases.random_operator(12, seed=0, batch=3, decay=0.5)


def length(factor, p):
    rows = torch.linalg.vector_norm(factor, dim=1)
    return torch.linalg.vector_norm(rows, ord=p, dim=1)


@pytest.mark.parametrize("p", ORDERS)
def test_maximiser_is_feasible_and_beats_random_factors(p) -> None:
    slope = gaussians(4, 12, seed=0, stream=0).unsqueeze(0)
    best = maximiser(slope, p)
    torch.testing.assert_close(length(best, p), torch.ones(1).double())
    others = torch.randn(500, 4, 12, generator=torch.Generator().manual_seed(0)).double()
    others = others / length(others, p).view(-1, 1, 1)
    assert (others * slope).sum((1, 2)).max() < (best * slope).sum()
    # Equality in Hoelder: the dual norm of the slope.
    dual = 1.0 if p == math.inf else p / (p - 1)
    torch.testing.assert_close((best * slope).sum((1, 2)), length(slope, dual))


def test_a_zero_row_stays_zero() -> None:
    slope = torch.ones(1, 3, 5).double()
    slope[:, :, 2] = 0
    assert maximiser(slope, math.inf)[:, :, 2].abs().max() == 0
    assert not maximiser(torch.zeros(1, 3, 5), 3.0).isnan().any()


def values(p, turn=MATRIX.mT @ MATRIX, steps=12):
    """The relaxation's value after each step, with the slopes ``V turn``."""
    slope, found = gaussians(4, 12, 0, 0).expand(3, 4, 12), []
    for _ in range(steps):
        factor = maximiser(slope, p)
        found.append(Relaxed(factor, factor @ MATRIX.mT @ MATRIX, 4).value)
        slope = factor @ turn
    return torch.stack(found)


def rises(found) -> None:
    assert (found[1:] >= found[:-1] * (1 - 1e-12)).all()


@pytest.mark.parametrize("p", ORDERS)
def test_the_value_never_falls_and_the_method_is_the_slow_one(p) -> None:
    slow = values(p)
    rises(slow)
    for steps in (1, 5):
        quick = generalised_power(DenseOperator(MATRIX), p, gaussians(4, 12, 0, 0), steps)
        torch.testing.assert_close(quick.value, slow[steps - 1])
        assert quick.products == 2 * 4 * steps
        torch.testing.assert_close(quick.product, quick.factors[:, -4:] @ MATRIX.mT @ MATRIX)


@pytest.mark.parametrize("p", ORDERS)
def test_steps_along_j_j_transposed_are_caught(p) -> None:
    with pytest.raises(AssertionError):
        rises(values(p, MATRIX @ MATRIX.mT))


def test_streams_and_seeds_differ_and_repeat() -> None:
    first = gaussians(2, 100, seed=0, stream=0)
    assert torch.equal(first, gaussians(2, 100, seed=0, stream=0))
    solvers_start = torch.randn(100, generator=torch.Generator().manual_seed(0)).double()
    for other in (gaussians(2, 100, 0, 1)[0], gaussians(2, 100, 1, 0)[0], solvers_start):
        assert abs(torch.corrcoef(torch.stack([first[0], other]))[0, 1]) < 0.4


def test_full_rank_is_enough_and_no_more_than_the_size() -> None:
    assert [full_rank(n) for n in (1, 2, 50, 200)] == [1, 2, 11, 21]
    assert all(full_rank(n) * (full_rank(n) + 1) / 2 > n for n in range(8, 300))


def test_the_full_rank_is_the_least_above_patakis_by_one() -> None:
    """r (r + 1) / 2 is more than n from it on: there no optimum is spurious; never above n."""
    for size in range(1, 300):
        least = next(r for r in range(size + 3) if r * r >= 2 * size)
        rank = full_rank(size)
        assert rank == min(size, least + 1)
        assert rank * (rank + 1) // 2 > size or rank == size
