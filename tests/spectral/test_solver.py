from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import attribound as ab
import cases
import laws
from attribound.operators import DenseOperator, LinearOperator
from attribound.results import Status
from attribound.spectral import NormSolver

TIGHT = ab.SpectralSolver(tolerance=1e-9)


@dataclass(frozen=True, eq=False)
class Symmetric(DenseOperator):
    symmetric: bool = True

    def select(self, index: Tensor) -> LinearOperator:
        return Symmetric(self.matrix[index])


@pytest.mark.parametrize("size", [1, 2, 3, 20, 60])
def test_ritz_value_is_the_largest_singular_value(size) -> None:
    matrix = cases.random_operator(size, seed=size, batch=3)
    found = TIGHT(DenseOperator(matrix))
    truth = torch.linalg.svdvals(matrix)[:, 0]
    torch.testing.assert_close(found.value.lower, truth, rtol=1e-6, atol=0)
    laws.never_below(found.value.upper, truth)
    assert {str(status) for status in found.status} == {"converged"}
    forward = torch.einsum("bij,bj->bi", matrix, found.right)
    torch.testing.assert_close(forward, truth.unsqueeze(1) * found.left, rtol=1e-4, atol=1e-5)


def test_symmetric_operators_need_fewer_products() -> None:
    turn = cases.rotation(80)
    matrix = (turn * torch.linspace(-1, 0.97, 80).double() ** 5 @ turn.T).unsqueeze(0)
    general = ab.SpectralSolver()(DenseOperator(matrix))
    symmetric = ab.SpectralSolver()(Symmetric(matrix))
    assert symmetric.products.item() < general.products.item()
    for found in (general, symmetric):
        torch.testing.assert_close(found.value.lower.item(), 1.0, rtol=1e-3, atol=0)
        laws.never_below(found.value.upper, torch.ones(1).double())


def test_upper_estimate_is_never_below_the_dense_value_of_1000_operators() -> None:
    """At every step count, converged or not; a Ritz value put in its place fails at once."""
    ritz_below = 0
    for seed in range(50):
        size = 2 + 7 * (seed % 9)
        decay = [0.05, 0.3, 1.0, 3.0, 0.0][seed % 5]
        matrix = cases.random_operator(size, seed, batch=20, decay=decay)
        truth = torch.linalg.svdvals(matrix)[:, 0]
        solver = ab.SpectralSolver(max_iterations=1 + seed % 12, seed=seed)
        for operator, exact in (
            (DenseOperator(matrix), truth),
            (
                Symmetric(matrix + matrix.mT),
                torch.linalg.eigvalsh(matrix + matrix.mT).abs().amax(1),
            ),
        ):
            found = solver(operator)
            laws.never_below(found.value.upper, exact)
            ritz_below += int((found.value.lower < exact * (1 - 1e-12)).sum())
    assert ritz_below > 500


def test_upper_estimate_in_single_precision_is_not_below_either() -> None:
    for seed in range(20):
        matrix = cases.random_operator(40, seed, batch=10, decay=seed / 10)
        found = ab.SpectralSolver(tolerance=1e-5, seed=seed)(DenseOperator(matrix.float()))
        laws.never_below(found.value.upper.double(), torch.linalg.svdvals(matrix)[:, 0])


def test_default_upper_estimate_is_within_its_tolerance() -> None:
    found = ab.SpectralSolver()(DenseOperator(cases.random_operator(60, seed=0, batch=10)))
    assert (found.value.upper / found.value.lower - 1 <= 0.0101).all()
    assert found.value.failure_probability == 1e-6


def test_smaller_failure_probability_means_a_larger_upper_estimate() -> None:
    operator = DenseOperator(cases.random_operator(60, seed=0, decay=0.2))
    uppers = [
        ab.SpectralSolver(max_iterations=5, failure_probability=p)(operator).value.upper.item()
        for p in (1e-2, 1e-6, 1e-12)
    ]
    assert uppers == sorted(uppers)


def test_iteration_limit_is_reported_and_still_valid() -> None:
    matrix = cases.random_operator(60, seed=0, batch=2, decay=0.1)
    found = ab.SpectralSolver(max_iterations=3)(DenseOperator(matrix))
    assert {str(status) for status in found.status} == {"iteration-limit"}
    laws.never_below(found.value.upper, torch.linalg.svdvals(matrix)[:, 0])
    assert found.products.tolist() == [6, 6]


def test_stopping_on_the_ritz_value_takes_fewer_products() -> None:
    operator = DenseOperator(cases.random_operator(100, seed=0, batch=4, decay=0.7))
    upper, ritz = ab.SpectralSolver()(operator), ab.SpectralSolver(stop="ritz")(operator)
    assert (ritz.products < upper.products).all()
    assert (ritz.residual <= 0.01 * ritz.value.lower).all()
    assert (ritz.value.upper >= upper.value.lower).all()


def test_converged_examples_leave_the_batch() -> None:
    easy, hard = cases.random_operator(60, 0, decay=4.0), cases.random_operator(60, 1, decay=0.1)
    operator = cases.Counting(torch.cat([easy, hard, hard]))
    found = ab.SpectralSolver()(operator)
    assert sum(operator.rows) == found.products.sum()
    assert found.products[0] < found.products[1] == found.products[2]


def test_answers_do_not_depend_on_the_batch() -> None:
    matrix = cases.random_operator(30, seed=5, batch=6, decay=0.5)
    together = ab.SpectralSolver(seed=3)(DenseOperator(matrix))
    for row in range(6):
        alone = ab.SpectralSolver(seed=3)(DenseOperator(matrix[row : row + 1]))
        torch.testing.assert_close(alone.value.upper[0], together.value.upper[row])
        torch.testing.assert_close(alone.right[0], together.right[row])
        assert alone.products[0] == together.products[row]


def test_same_seed_same_answer_other_seed_another_start() -> None:
    operator = DenseOperator(cases.random_operator(40, seed=0, decay=0.1))
    first, again, other = (
        ab.SpectralSolver(max_iterations=4, seed=seed)(operator).value.lower for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_zero_operator_converges_to_zero() -> None:
    found = ab.SpectralSolver()(DenseOperator(torch.zeros(2, 5, 5)))
    assert found.value.upper.tolist() == [0, 0]
    assert {str(status) for status in found.status} == {"converged"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_one_and_identity(dtype) -> None:
    ones = torch.zeros(12, 12, dtype=dtype)
    ones[0] = 1  # J = e1 1ᵀ
    matrix = torch.stack([ones, 3 * torch.eye(12, dtype=dtype)])
    value = ab.SpectralSolver()(DenseOperator(matrix)).value
    torch.testing.assert_close(
        value.lower.double(), torch.tensor([12**0.5, 3.0]).double(), rtol=1e-5, atol=0
    )
    assert (value.upper / value.lower - 1 <= 0.0101).all()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"failure_probability": 1.0}, "failure_probability"),
        ({"stop": "soon"}, "stop"),
    ],
)
def test_refuses_senseless_settings(settings, name) -> None:
    with pytest.raises(ab.InputError, match=f"{name}: expected"):
        ab.SpectralSolver(**settings)


@pytest.mark.parametrize("solve", [ab.SpectralSolver(), NormSolver(), NormSolver(dense_below=0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_upper_values_leave_room_for_the_rounding_of_products(solve, dtype: torch.dtype) -> None:
    """Of a number, whose norm is known exactly, by tens of units in the last place."""
    sizes = torch.tensor([3.7e-5, 1 / 3, 1.0, 0.1, 8.9e3], dtype=dtype)
    for sign in (1, -1):
        operator = DenseOperator((sign * sizes).view(-1, 1, 1))
        found = solve(operator)
        room = (found.value.upper.double() - sizes) / (torch.finfo(dtype).eps * sizes)
        assert found.value.upper.dtype == dtype
        assert ((room > 32) & (room < 200)).all()
        assert (found.value.lower <= found.value.upper).all()


SOLVERS = {
    "upper": ab.SpectralSolver(),
    "ritz": ab.SpectralSolver(stop="ritz"),
    "dense": NormSolver(),
    "free": NormSolver(dense_below=0),
}


@pytest.mark.parametrize("factor", [-(2.0**-20), 2.0**20])
@pytest.mark.parametrize("kind", [DenseOperator, Symmetric])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_answer_for_a_multiple_is_the_multiple_of_the_answer(name, kind, factor) -> None:
    """Bracket, residual, products and status: nothing here knows how large a derivative is."""
    turn = cases.rotation(14)
    values = torch.stack([torch.linspace(-1, 0.9, 14) ** k for k in (1, 3)]).double()
    matrix = turn * values.unsqueeze(1) @ turn.T
    one, other = (SOLVERS[name](kind(c * matrix)) for c in (1.0, factor))
    for mine, its in (
        (one.value.lower, other.value.lower),
        (one.value.upper, other.value.upper),
        (getattr(one, "residual", 0 * matrix), getattr(other, "residual", 0 * matrix)),
    ):
        torch.testing.assert_close(its, abs(factor) * mine, rtol=1e-9, atol=1e-12 * abs(factor))
    assert one.products.tolist() == other.products.tolist()
    assert one.status == other.status
    if name in ("upper", "ritz"):
        forward = torch.einsum("bij,bj->bi", factor * matrix, other.right)
        gap = forward - other.value.lower.unsqueeze(1) * other.left
        assert (gap.norm(dim=1) <= other.residual + 1e-12 * abs(factor)).all()


@pytest.mark.parametrize("points", [1, 40, 100])
def test_matrices_are_built_from_few_evaluations_at_a_time(points) -> None:
    """64 at most, or one product if that takes more."""

    class Dear(cases.Counting):
        pass

    Dear.points = points
    for matrix in (cases.random_operator(70, seed=0), cases.random_operator(3, seed=0)):
        operator = Dear(matrix)
        NormSolver()(operator)
        assert max(operator.rows) == min(len(matrix[0]), max(1, 64 // points))


@pytest.mark.parametrize("p", [3.0, math.inf])
def test_matrices_are_converged_where_the_relaxation_is_closed(p) -> None:
    """It is never closed to the last digit; a norm of zero is."""
    operator = DenseOperator(cases.random_operator(8, seed=1, batch=2, decay=0.4))
    for tolerance, expected in ((0.05, Status.CONVERGED), (1e-15, Status.ITERATION_LIMIT)):
        found = NormSolver(solver=ab.SpectralSolver(tolerance=tolerance))(operator, p)
        assert found.status == (expected,) * 2
    zero = NormSolver()(DenseOperator(torch.zeros(2, 3, 3)), p)
    assert zero.status == (Status.CONVERGED,) * 2


@pytest.mark.parametrize("height", [2, 3, 4, 6])
def test_a_small_range_is_exhausted_no_sooner_than_it_is(height) -> None:
    """Ritz values are taken for singular values only when the Krylov space holds the range."""
    generator = torch.Generator().manual_seed(height)
    matrix = torch.randn(5, height, 12, generator=generator, dtype=torch.float64)
    exact = torch.linalg.svdvals(matrix)[:, 0]
    for steps in range(1, height + 3):
        found = ab.SpectralSolver(max_iterations=steps, tolerance=1e-9)(DenseOperator(matrix))
        assert (found.value.upper >= exact).all()
        assert (found.value.lower <= exact * (1 + 1e-12)).all()
        if steps > height:
            assert (found.value.upper <= exact * (1 + 1e-8)).all()
