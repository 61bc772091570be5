from __future__ import annotations

import torch

import cases
from attribound.operators import DenseOperator
from attribound.spectral.golub_kahan import GolubKahan
from attribound.spectral.upper_estimate import log_component


def run(matrix, steps):
    operator = DenseOperator(matrix)
    torch.manual_seed(0)
    start = torch.nn.functional.normalize(torch.randn(operator.like.shape).double(), dim=1)
    process = GolubKahan(start, steps)
    for _ in range(steps):
        process.expand(operator)
    return process


def test_all_singular_values_after_all_steps() -> None:
    matrix = cases.random_operator(9, seed=1, batch=3)
    torch.testing.assert_close(
        torch.linalg.svdvals(run(matrix, 9)._bidiagonal()), torch.linalg.svdvals(matrix)
    )


def test_residual_and_vectors_are_those_of_the_matrix() -> None:
    matrix = cases.random_operator(12, seed=2, batch=2)
    process = run(matrix, 5)
    lower, _ = process.bracket(log_component(12, 1e-6))
    left, right = process.vectors()
    gap = torch.einsum("bij,bi->bj", matrix, left) - lower.unsqueeze(1) * right
    torch.testing.assert_close(gap.norm(dim=1), process.residual())
    product = torch.einsum("bij,bj->bi", matrix, right)
    torch.testing.assert_close(product, lower.unsqueeze(1) * left)


def test_product_of_coefficients_is_the_norm_of_the_lanczos_polynomial() -> None:
    """The identity behind the upper estimate, on the dense matrix."""
    matrix = cases.random_operator(12, seed=3)
    process = run(matrix, 4)
    gram = (matrix.mT @ matrix)[0]
    theta = torch.linalg.svdvals(process._bidiagonal())[0] ** 2
    vector = process._v.vectors[0, 0]
    for root in theta:
        vector = gram @ vector - root * vector
    product = torch.stack([*process._alpha, *process._beta]).prod()
    torch.testing.assert_close(vector.norm(), product)
