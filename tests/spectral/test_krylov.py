"""Pieces of the Krylov iteration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import attribound as ab
import brute_force
import cases
import laws
from attribound.operators import DenseOperator
from attribound.spectral.basis import Basis
from attribound.spectral.generalised_power import full_rank, gaussians, generalised_power
from attribound.spectral.golub_kahan import GolubKahan
from attribound.spectral.lanczos import Lanczos
from attribound.spectral.mixing import mixing, shifted_dual
from attribound.spectral.upper_estimate import largest_root, log_component
from cases import rotation


def test_stays_orthonormal_for_nearly_parallel_vectors() -> None:
    torch.manual_seed(0)
    start = torch.randn(3, 30).double()
    basis = Basis(start, capacity=20)
    for _ in range(20):
        basis.append(start + 1e-7 * torch.randn(3, 30).double())
    gram = basis.vectors @ basis.vectors.mT
    torch.testing.assert_close(gram, torch.eye(20).double().expand(3, -1, -1), atol=1e-12, rtol=0)


def test_a_vector_in_the_span_is_added_as_zero_or_noise() -> None:
    basis = Basis(torch.zeros(1, 3), capacity=3)
    basis.append(torch.tensor([[2.0, 0.0, 0.0]]))
    assert basis.append(torch.tensor([[5.0, 0.0, 0.0]])).item() == 0
    assert basis.last.tolist() == [[0, 0, 0]]


def test_combine_and_select() -> None:
    basis = Basis(torch.zeros(2, 4), capacity=3)
    for axis in range(3):
        basis.append(torch.eye(4)[axis].expand(2, 4))
    basis.select(torch.tensor([1]))
    assert basis.combine(torch.tensor([[1.0, 2.0]])).tolist() == [[1, 2, 0, 0]]


def test_refuses_derivatives_that_are_not_finite() -> None:
    basis = Basis(torch.zeros(1, 3), capacity=3)
    with pytest.raises(ab.ModelError, match="derivatives of the attribution: expected finite"):
        basis.append(torch.tensor([[1.0, float("nan"), 0.0]]))


def run(eigenvalues, steps):
    turn = rotation(len(eigenvalues))
    matrix = (turn * torch.tensor(eigenvalues).double() @ turn.T).unsqueeze(0)
    operator = DenseOperator(matrix)
    start = torch.full((1, len(eigenvalues)), len(eigenvalues) ** -0.5).double()
    process = Lanczos(start, start, steps)
    for _ in range(steps):
        process.expand(operator)
    return matrix, process


@pytest.mark.parametrize("eigenvalues", [[3.0, -2.0, 1.0, 0.5], [1.0, -3.0, 2.9, 0.0]])
def test_norm_and_signed_vectors(eigenvalues) -> None:
    matrix, process = run(eigenvalues, 4)
    lower, upper = process.bracket(log_component(4, 1e-6))
    torch.testing.assert_close(lower, torch.tensor([3.0]).double())
    assert (upper >= lower).all()
    left, right = process.vectors()
    torch.testing.assert_close(torch.einsum("bij,bj->bi", matrix, right), 3 * left)


def test_opposite_eigenvalues_do_not_disturb_it() -> None:
    _, process = run([2.0, -2.0, 0.1, 0.2, -0.3, 0.0], 6)
    torch.testing.assert_close(
        process.bracket(log_component(6, 1e-6))[0], torch.tensor([2.0]).double()
    )


def test_residual_is_that_of_the_matrix() -> None:
    matrix, process = run([4.0, -3.0, 2.0, 1.0, 0.5, 0.1], 3)
    lower, _ = process.bracket(log_component(6, 1e-6))
    left, right = process.vectors()
    gap = torch.einsum("bij,bj->bi", matrix, right) - lower.unsqueeze(1) * left
    torch.testing.assert_close(gap.norm(dim=1), process.residual())


def solve(matrix):
    return mixing(matrix, gaussians(full_rank(len(matrix)), len(matrix), 0, 0))


@pytest.mark.parametrize("size", [1, 2, 6, 11])
def test_bracket_holds_the_truth_and_closes_on_the_relaxation(size) -> None:
    for matrix in cases.random_operator(size, seed=size, batch=4, decay=0.3):
        _, primal, upper = solve(matrix)
        laws.never_below(upper, brute_force.cube(matrix.unsqueeze(0))[0])
        assert primal <= upper <= primal * (1 + 1e-4)
        assert upper <= brute_force.cube(matrix.unsqueeze(0))[0] * math.sqrt(math.pi / 2) * 1.0001


def test_agrees_with_the_power_method_run_for_long() -> None:
    matrix = cases.random_operator(30, seed=0, decay=0.5)
    slow = generalised_power(DenseOperator(matrix), math.inf, gaussians(10, 30, 1, 0), 500)
    product, primal, _ = solve(matrix[0])
    torch.testing.assert_close(primal, slow.value[0], rtol=1e-4, atol=0)
    assert product.shape == (full_rank(30), 30)


def test_closed_forms() -> None:
    ones = torch.zeros(7, 7).double()
    ones[0] = 1  # J = e1 1^T: all signs alike, 7
    assert solve(ones)[2].item() == pytest.approx(7, rel=1e-4)
    diagonal = torch.diag(torch.arange(1, 8).double())  # every corner alike
    assert solve(diagonal)[2].item() == pytest.approx(math.sqrt(140), rel=1e-4)
    assert solve(torch.zeros(3, 3).double())[2].item() == 0


def test_the_dual_holds_for_every_factor_and_not_without_its_shift() -> None:
    below = 0
    for seed in range(30):
        matrix = cases.random_operator(8, seed, decay=0.5)
        gram = (matrix.mT @ matrix)[0]
        factor = torch.nn.functional.normalize(gaussians(8, 3, seed, 0), dim=1)
        truth = brute_force.cube(matrix)[0] ** 2
        laws.never_below(shifted_dual(gram, gram @ factor), truth)
        below += int(torch.linalg.vector_norm(gram @ factor, dim=1).sum() < truth)
    assert below > 10


@pytest.mark.parametrize("entries", [[1.0, 2.0**20, 3.0], [2.0**20] * 3])
@pytest.mark.parametrize("other", [0.0, 2.0**21])
def test_the_shift_leaves_room_for_the_rounding_of_eigenvalues(entries, other) -> None:
    """Their error is a share of the matrix whose they are, its length from above."""
    y, gram = torch.tensor(entries).double(), other * torch.eye(3).double() / 2
    found = shifted_dual(gram, torch.diag(y)).item()
    excess = max(other / 2 - y.min().item(), 0.0)
    unit = 3 * torch.finfo(torch.float64).eps
    room = 3 * unit * (other / 2 * math.sqrt(3) + y.max().item())
    assert found - (y.sum().item() + 3 * excess) == pytest.approx(room, rel=0.2)


@pytest.mark.parametrize(
    ("theta", "product", "tau"),
    [([3.0], 2.0, 0.1), ([3.0, 1.0], 0.5, 1e-3), ([2.0, -1.0, 0.5], 4.0, 1e-6)],
)
def test_is_the_largest_root_of_the_polynomial(theta, product, tau) -> None:
    coefficients = np.poly(theta)
    coefficients[-1] -= product / tau
    roots = np.roots(coefficients)
    truth = float(roots.real[np.abs(roots.imag) < 1e-9].max())
    root = largest_root(
        torch.tensor([theta], dtype=torch.float64),
        torch.tensor([math.log(product)], dtype=torch.float64),
        math.log(tau),
    )
    torch.testing.assert_close(root.item(), truth, rtol=1e-9, atol=0)


def test_half_a_root_at_zero() -> None:
    """sqrt(t) (t - 1) = 6 at t = 4."""
    found = largest_root(
        torch.ones(1, 1).double(),
        torch.tensor([math.log(6)], dtype=torch.float64),
        0.0,
        half_at_zero=True,
    )
    torch.testing.assert_close(found.item(), 4.0, rtol=1e-12, atol=0)


def test_an_exhausted_space_leaves_the_ritz_value() -> None:
    theta = torch.tensor([[4.0, 1.0]]).double()
    assert largest_root(theta, torch.tensor([-math.inf]).double(), -10.0).item() == 4.0


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 784])
def test_component_is_smaller_only_with_the_stated_probability(dimension) -> None:
    """Sampled at a failure probability that can be seen."""
    failure = 0.2
    tau = math.exp(log_component(dimension, failure))
    generator = torch.Generator().manual_seed(dimension)
    draws = torch.randn(20000, dimension, generator=generator).double()
    component = (draws[:, 0] / draws.norm(dim=1)).abs()
    share = (component < tau).double().mean().item()
    assert share <= failure + 3 * math.sqrt(failure * (1 - failure) / 20000)
    if dimension > 3:
        assert share > 0.8 * failure  # and not by being useless


@pytest.mark.parametrize("products", range(1, 9))
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_bracket_of_a_multiple_is_the_multiple_of_the_bracket(
    products: int, factor: float
) -> None:
    """Whichever product was the last: halfway, the estimate has half a root at zero, too."""
    matrix = cases.random_operator(12, 0, decay=0.8)
    start = torch.nn.functional.normalize(gaussians(1, 12, 1, 0).double(), dim=1)

    def bracket(scale: float) -> list[float]:
        operator = DenseOperator(scale * matrix)
        process = GolubKahan(start, torch.zeros_like(start), capacity=10)
        for _ in range(products):
            process.expand(operator)
        return [end.item() for end in process.bracket(math.log(1e-4))]

    lower, upper = bracket(1.0)
    assert lower <= torch.linalg.matrix_norm(matrix, 2).item() <= upper
    assert bracket(factor) == pytest.approx([factor * lower, factor * upper], rel=1e-9)


def test_nothing_has_nothing_above_it() -> None:
    """A Jacobian that is zero to the end: no root is asked for, only rounding would be one."""
    start = torch.nn.functional.normalize(gaussians(2, 5, 1, 0).double(), dim=1)
    process = GolubKahan(start, torch.zeros_like(start), capacity=3)
    zero = torch.zeros(2, 5, 5).double()
    for _ in range(3):
        process.expand(DenseOperator(zero))
        lower, upper = process.bracket(math.log(1e-4))
        assert (lower == 0).all()
        assert (upper == 0).all()
