"""Proved maxima of quadratic forms, against dense eigenvalues, corners and forged matrices."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import cases
from attribound.basics.rounding import SLACK, gamma
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


def raised(value: float, exact: float, times: float = 1.0) -> bool:
    """Above the exact value by this multiple of the margin for a path of roundings."""
    return 0.99 * times * SLACK <= value / exact - 1 <= 1.01 * times * SLACK


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, math.inf])
def test_masses_are_raised_at_every_step(p) -> None:
    """Of sums and multiples, too: by one margin each, no less and no more."""
    rows = cases.random_operator(6, 1)[0]
    weights = torch.linspace(0.1, 2, 6).double()
    order = {1.0: math.inf, 1.5: 2, 2.0: 2, 4.0: 4 / 3, math.inf: 1}[p]
    exact = (weights * torch.linalg.vector_norm(rows, order, dim=0) ** 2).sum().item()
    made = Form.of(rows, weights, p)
    assert raised(made.mass, exact)
    assert raised((3.0 * made).mass, 3 * exact, 2)
    assert raised((made + made).mass, 2 * exact, 2)
    assert 0 < Form.of(0 * rows, weights, p).mass < 1e-100


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_maxima_are_raised_by_a_share_of_the_mass(p) -> None:
    """Which bounds what rounding did to any entry; the mass itself is the last resort."""
    diagonal = torch.tensor([1.0, 3.0, 2.0, 0.5]).double()
    exact = diagonal.sum().item() if p == math.inf else 3.0
    for mass in (100.0, 1e6):
        above = Form(torch.diag(diagonal), mass).maximum(p) - exact
        assert 0.9 * SLACK * mass <= above <= 1.1 * SLACK * mass + 1e-8 * exact
    assert raised(Form(torch.diag(diagonal), 0.1).maximum(p), 0.1)
    corners = Form(torch.tensor([[2.0, -1.0], [-1.0, 2.0]]).double(), 50.0)
    assert corners.maximum(math.inf) <= 6 * (1 + 1e-7) + 51 * SLACK


def test_what_a_factorisation_proves_is_what_was_derived() -> None:
    """Twice gamma of the size and four, times the trace: rounding of the diagonal included."""
    for size in (1, 7, 40):
        matrix = torch.diag(torch.linspace(1, 2, size).double())
        trace = matrix.diagonal().sum().item()
        assert proved(matrix) == pytest.approx(2 * gamma(size + 4) * trace, rel=1e-12, abs=0)
    assert 0 < proved(torch.zeros(0, 0).double()) < 1e-100


@pytest.mark.parametrize("p", [2.5, 3.0, 6.0, math.inf])
def test_dual_length_is_raised(p) -> None:
    y = torch.tensor([3.0, 1.0, 2.0, 0.25]).double()
    q = 1.0 if p == math.inf else p / (p - 2)
    exact = (y**q).sum().item() ** (1 / q)
    assert raised(dual_length(y, p), exact)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0, math.inf])
def test_a_deficit_counts_in_every_direction_that_the_ball_allows(p, monkeypatch) -> None:
    """sum d_i^2 over the ball: one up to p = 2, at the cube the number of features."""
    matrix, y = torch.diag(torch.tensor([1.0, 2.0, 3.0]).double()), torch.ones(3).double()
    free = dominate(matrix, y, p)
    monkeypatch.setattr(quadratic, "proved", lambda _: 0.5)
    size = 3.0 ** max(0.0, 1 - 2 / p)
    assert dominate(matrix, y, p) - free == pytest.approx(0.5 * size, rel=1e-6)


def test_only_a_factorisation_that_runs_through_is_believed(monkeypatch) -> None:
    """The first margins fail: a later one is taken, and the bound grows with it."""
    matrix, y = torch.diag(torch.tensor([1.0, 2.0, 3.0]).double()), torch.ones(3).double()
    tried: list[float] = []

    def proof(scaled):
        tried.append(scaled[2, 2].item() / 3)
        return 0.0 if len(tried) == 6 else None

    monkeypatch.setattr(quadratic, "proved", proof)
    assert dominate(matrix, y, 2) == pytest.approx(3 * (1 + 1e-7), rel=1e-9)
    assert tried == pytest.approx([10.0**-digits for digits in range(12, 6, -1)], rel=1e-2)
