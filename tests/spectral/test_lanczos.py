from __future__ import annotations

import pytest
import torch

from attribound.operators import DenseOperator
from attribound.spectral.lanczos import Lanczos
from attribound.spectral.upper_estimate import log_component
from cases import rotation


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
