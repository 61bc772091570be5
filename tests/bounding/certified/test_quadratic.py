"""Proved maxima of quadratic forms, against dense eigenvalues, corners and forged matrices."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import cases
from attribound.bounding.certified import quadratic
from attribound.bounding.certified.quadratic import Form, dominate, dual_length, proved
from bounding.certified import reference


def form(size: int, p: float, seed: int = 0) -> tuple[Form, torch.Tensor]:
    rows = cases.random_operator(size, seed)[0]
    weights = torch.linspace(0.1, 2, size).double()
    return Form.of(rows, weights, p), (rows * weights) @ rows.T


def samples(size: int, p: float) -> torch.Tensor:
    draw = torch.randn(4000, size, generator=torch.Generator().manual_seed(1)).double()
    return draw / torch.linalg.vector_norm(draw, p, dim=1, keepdim=True)


def test_l2_is_the_largest_eigenvalue() -> None:
    made, matrix = form(30, 2)
    exact = torch.linalg.eigvalsh(matrix)[-1].item()
    assert exact <= made.maximum(2) <= exact * (1 + 1e-7)


def test_cube_against_all_corners() -> None:
    """Between the best corner and the relaxation's worst case, pi / 2 above it."""
    made, matrix = form(10, math.inf)
    corners = torch.tensor([*itertools.product([-1.0, 1.0], repeat=10)]).double()
    best = ((corners @ matrix) * corners).sum(1).max().item()
    assert best <= made.maximum(math.inf) <= best * math.pi / 2
    assert made.maximum(math.inf) <= matrix.abs().sum().item() * (1 + 1e-8)


def test_l1_is_the_largest_diagonal_entry() -> None:
    made, matrix = form(12, 1)
    assert made.maximum(1) == pytest.approx(matrix.diagonal().max().item(), rel=1e-7)
    assert made.maximum(1) >= matrix.diagonal().max().item()


@pytest.mark.parametrize("p", [1.3, 2.5, 4.0, 10.0])
def test_other_balls_against_samples(p) -> None:
    made, matrix = form(8, p)
    points = samples(8, p)
    best = ((points @ matrix) * points).sum(1).max().item()
    assert best <= made.maximum(p) <= 3 * best


def test_sums_and_multiples() -> None:
    first, a = form(6, 2, seed=1)
    second, b = form(6, 2, seed=2)
    total = 0.5 * first + second
    torch.testing.assert_close(total.matrix, a / 2 + b)
    exact = torch.linalg.eigvalsh(a / 2 + b)[-1].item()
    assert exact <= total.maximum(2) <= exact * (1 + 1e-7)


def test_mass_bounds_the_form_and_is_the_last_resort() -> None:
    made, matrix = form(9, 2)
    assert made.mass >= matrix.trace().item()
    broken = Form(torch.full((9, 9), math.nan).double(), made.mass)
    assert broken.maximum(2) == math.inf
    assert Form(matrix, math.inf).maximum(2) == math.inf
    assert Form.zero(4).maximum(2) <= 1e-100


def test_the_margin_covers_an_error_of_the_matrix() -> None:
    """Remove the margin, and a matrix that was rounded down in every entry gives too little."""
    _, matrix = form(20, 2)
    exact = torch.linalg.eigvalsh(matrix)[-1].item()
    mass = matrix.trace().item()
    forged = matrix * (1 - 2.0**-32)
    assert Form(forged, mass).maximum(2) >= exact
    assert dominate(forged, torch.ones(20).double(), 2) < exact


def test_a_factorisation_proves_and_its_failure_does_not() -> None:
    matrix = cases.random_operator(40, 3)[0]
    gram = matrix @ matrix.T
    top = torch.linalg.eigvalsh(gram)[-1].item()
    eye = torch.eye(40).double()
    assert proved((1.001 * top) * eye - gram) < 1e-10
    assert proved((0.999 * top) * eye - gram) is None


def test_a_solver_that_lies_is_not_believed(monkeypatch) -> None:
    """Too small an eigenvalue fails the proof at every margin; a slightly small one is mended."""
    _, matrix = form(15, 2)
    honest = torch.linalg.eigvalsh
    exact = honest(matrix)[-1].item()
    ones = torch.ones(15).double()
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda m: 0.5 * honest(m))
    assert dominate(matrix, ones, 2) == math.inf
    assert Form(matrix, 100.0).maximum(2) == pytest.approx(100.0)
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda m: (1 - 1e-7) * honest(m))
    assert exact <= dominate(matrix, ones, 2) <= exact * (1 + 1e-5)

    def fails(_):
        raise RuntimeError("no convergence")

    monkeypatch.setattr(torch.linalg, "eigvalsh", fails)
    assert dominate(matrix, ones, 2) == math.inf


@pytest.mark.parametrize("p", [1.3, 2.0, 3.0, 6.0, math.inf])
def test_what_a_proof_lacks_is_added(p, monkeypatch) -> None:
    """The bound holds whatever the factorisation leaves open, if it says so."""
    made, matrix = form(8, p)
    points = samples(8, p)
    best = ((points @ matrix) * points).sum(1).max().item()
    if p == 2:
        best = torch.linalg.eigvalsh(matrix)[-1].item()
    reference.poor_proofs(monkeypatch, quadratic)
    assert best <= dominate(matrix, torch.ones(8).double(), p)
    assert best <= made.maximum(p)


@pytest.mark.parametrize("p", [2.0, 3.0, 6.0, math.inf])
def test_dual_length_is_the_maximum_of_a_weighted_sum(p) -> None:
    y = torch.rand(6, generator=torch.Generator().manual_seed(2)).double() + 0.1
    best = (samples(6, p) ** 2 @ y).max().item()
    assert best <= dual_length(y, p)
    if p == math.inf:
        assert dual_length(y, p) == pytest.approx(y.sum().item())
    if p == 2:
        assert dual_length(y, p) == y.max().item()
