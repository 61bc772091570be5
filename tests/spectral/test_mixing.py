from __future__ import annotations

import math

import pytest
import torch

import brute_force
import cases
import laws
from attribound.operators import DenseOperator
from attribound.spectral.generalised_power import full_rank, gaussians, generalised_power
from attribound.spectral.mixing import mixing, shifted_dual


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
