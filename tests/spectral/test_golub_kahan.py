from __future__ import annotations

import pytest
import torch

import cases
import laws
from attribound.operators import DenseOperator
from attribound.spectral.golub_kahan import GolubKahan
from attribound.spectral.upper_estimate import log_component

LOG_TAU = log_component(12, 1e-6)


def run(matrix, products):
    operator = DenseOperator(matrix)
    torch.manual_seed(0)
    start = torch.nn.functional.normalize(torch.randn(operator.domain.shape).double(), dim=1)
    process = GolubKahan(start, operator.range, products)
    for _ in range(products):
        process.expand(operator)
    return process


def test_all_singular_values_after_all_steps() -> None:
    matrix = cases.random_operator(9, seed=1, batch=3)
    torch.testing.assert_close(
        torch.linalg.svdvals(run(matrix, 18)._bidiagonal()), torch.linalg.svdvals(matrix)
    )


@pytest.mark.parametrize("products", [2, 3, 10, 11])
def test_residual_and_vectors_are_those_of_the_matrix(products) -> None:
    matrix = cases.random_operator(12, seed=2, batch=2)
    process = run(matrix, products)
    lower, _ = process.bracket(LOG_TAU)
    left, right = process.vectors()
    back = torch.einsum("bij,bi->bj", matrix, left) - lower.unsqueeze(1) * right
    forth = torch.einsum("bij,bj->bi", matrix, right) - lower.unsqueeze(1) * left
    gap = (back.norm(dim=1) ** 2 + forth.norm(dim=1) ** 2).sqrt()
    torch.testing.assert_close(gap, process.residual())
    torch.testing.assert_close(right.norm(dim=1), torch.ones(2).double())


@pytest.mark.parametrize("products", [8, 9])
def test_product_of_entries_is_the_norm_of_the_lanczos_polynomial(products) -> None:
    """The identity behind the upper estimate, on the dense matrix; halfway it starts from J v."""
    matrix = cases.random_operator(12, seed=3)[0]
    process = run(matrix.unsqueeze(0), products)
    theta = torch.linalg.svdvals(process._bidiagonal())[0] ** 2
    vector, gram = process._v.vectors[0, 0], matrix.T @ matrix
    if products % 2:
        vector, gram = matrix @ vector, matrix @ matrix.T
    for root in theta:
        vector = gram @ vector - root * vector
    entries = torch.stack([*process._alpha, *process._beta]).prod()
    torch.testing.assert_close(vector.norm(), entries)


def test_every_product_tightens_the_bracket() -> None:
    matrix = cases.random_operator(12, seed=4)
    truth = torch.linalg.svdvals(matrix)[0, 0].item()
    brackets = [run(matrix, n).bracket(LOG_TAU) for n in range(1, 20)]
    lowers, uppers = ([value.item() for value in side] for side in zip(*brackets, strict=True))
    assert lowers == pytest.approx(sorted(lowers), rel=1e-12)
    laws.never_below(torch.tensor(uppers), torch.tensor(truth))
    laws.never_below(torch.tensor(truth), torch.tensor(lowers))
    for parity in (0, 1):
        assert uppers[parity::2] == pytest.approx(sorted(uppers[parity::2])[::-1], rel=1e-12)


def test_after_one_product_only_its_norm_is_known() -> None:
    matrix = cases.random_operator(12, seed=5)
    process = run(matrix, 1)
    lower, upper = process.bracket(LOG_TAU)
    left, right = process.vectors()
    torch.testing.assert_close(matrix[0] @ right[0], lower * left[0])
    assert upper.item() > 1e6 * lower.item()
    assert process.residual().isinf().all()
