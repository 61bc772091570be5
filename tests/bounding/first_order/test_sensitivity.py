from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
from attribound.attributions import Linearization
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.first_order.sensitivity import sensitivity, upper_value
from attribound.operators import DenseOperator
from attribound.results import Status
from attribound.spectral import NormSolver, SpectralSolver

UNIT = ab.LinfBall(1.0)
FREE = NormSolver(dense_below=0)


def of(matrix, ball, x=None, **settings):
    value = torch.ones(matrix.shape[:2]).double()
    at = Linearization(value, DenseOperator(matrix), torch.zeros(1))
    return sensitivity(at, ball, value / 2 if x is None else x, FirstOrder(**settings))


def test_the_paper_alone_takes_the_smaller_of_theorem_2_and_corollary_1_and_says_which() -> None:
    """Theorem 2 is not always the tighter: random Gaussian matrices are a counterexample."""
    torch.manual_seed(0)
    gaussian, diagonal = torch.randn(40, 40).double(), torch.diag(torch.rand(40)).double()
    found = of(torch.stack([gaussian, diagonal]), UNIT, norm=None)
    assert found.source == ("corollary 1", "theorem 2")
    both = torch.stack(
        [
            40**0.5 * found.spectral.value.upper,
            torch.stack([(m.T @ m).abs().sum().sqrt() for m in (gaussian, diagonal)]),
        ]
    )
    torch.testing.assert_close(found.value, both.amin(0))
    torch.testing.assert_close(torch.stack([*found.values.values()]), both)


def test_the_cube_takes_the_smallest_of_three_and_says_which() -> None:
    torch.manual_seed(0)
    found = of(torch.randn(3, 30, 30).double(), UNIT)
    assert set(found.values) == {"corollary 1", "theorem 2", "dual certificate"}
    assert found.source == ("dual certificate",) * 3
    torch.testing.assert_close(found.value, torch.stack([*found.values.values()]).amin(0))


def test_without_dense_matrices_theorem_2_is_left_out() -> None:
    found = of(cases.random_operator(10, seed=0), UNIT, dense=False, norm=None)
    assert found.source == ("corollary 1",)
    assert found.products == found.spectral.products


def test_products_are_counted() -> None:
    matrix = cases.random_operator(10, seed=0)
    alone, dense, every = (
        of(matrix, UNIT, norm=n, dense=d)
        for n, d in ((None, False), (None, True), (NormSolver(), True))
    )
    assert dense.products == alone.products + 10
    assert every.products == dense.products + NormSolver()(DenseOperator(matrix)).products


RANGED = ab.LinfBall(0.5, 0, 1)
ROOMS = [ab.L2Ball(0.5), ab.LpBall(0.5, 1), ab.LpBall(0.5, 3), ab.LinfBall(0.5), RANGED]


@pytest.mark.parametrize("ball", ROOMS, ids=repr)
@pytest.mark.parametrize("settings", [{}, {"norm": None}, {"dense": False}, {"norm": FREE}])
def test_products_are_those_that_the_operator_saw(ball, settings) -> None:
    """In a range, too, where two problems are solved; and the tightest alone costs no more."""
    matrix = cases.random_operator(9, seed=3, batch=3)
    x = torch.rand(3, 9, generator=torch.Generator().manual_seed(0)).double()
    operator = cases.Counting(matrix)
    at = Linearization(x, operator, torch.zeros(1))
    found = sensitivity(at, ball, x, FirstOrder(**settings))
    assert sum(operator.rows) == found.products.sum()
    operator.rows.clear()
    alone = upper_value(at, ball, x, FirstOrder(**settings))
    assert sum(operator.rows) == alone.products.sum() <= found.products.sum()
    certificates = [name for name in found.values if "certificate" in name]
    expected = found.values[certificates[-1]] if certificates else found.value
    torch.testing.assert_close(alone.value, expected, rtol=0, atol=0)
    torch.testing.assert_close(ball.project(alone.delta, x), alone.delta)
    attained = torch.einsum("bij,bj->bi", matrix, alone.delta).norm(dim=1)
    assert (attained <= alone.value).all()
    assert (attained >= 0.5 * alone.value).all()


def test_a_range_counts_from_the_point_where_it_cuts_something_off() -> None:
    """Where it touches the cube it cuts nothing off; one example in reach of it is enough."""
    matrix = cases.random_operator(4, seed=3, batch=2)
    x = torch.full((2, 4), 0.5).double()
    name = "dual certificate in range"
    assert name not in of(matrix, RANGED, x).values
    x[1, 2] = 0.51
    assert name in of(matrix, RANGED, x).values
    assert name not in of(matrix, ab.LpBall(0.5, 3, 0, 1), x).values, "its box is a cube's"


@pytest.mark.parametrize(
    ("settings", "size", "p", "built"),
    [
        ({}, 100, math.inf, True),
        ({}, 256, math.inf, True),
        ({}, 257, math.inf, False),
        ({}, 300, math.inf, False),
        ({"norm": None}, 300, 2, False),
        ({"dense_limit": 10}, 100, math.inf, False),
        ({}, 300, 1, True),
        ({"norm": None}, 300, math.inf, True),
        ({"norm": None, "dense_limit": 10}, 300, math.inf, False),
        ({"dense": True}, 300, math.inf, True),
        ({"dense": False}, 10, 1, False),
        ({"dense": True}, 10, 2, False),
    ],
)
def test_builds_matrices_where_that_is_cheap_or_asked_for(settings, size, p, built) -> None:
    jacobian = DenseOperator(torch.zeros(1, size, size))
    assert FirstOrder(**settings).builds_matrix(jacobian, p) is built


def test_a_range_is_used_by_the_cube_and_never_loosens_it() -> None:
    matrix = cases.random_operator(9, seed=3, batch=4)
    x = torch.rand(4, 9, generator=torch.Generator().manual_seed(0)).double()
    ranged, free = (of(matrix, ball, x) for ball in (ab.LinfBall(0.5, 0, 1), ab.LinfBall(0.5)))
    assert (ranged.value <= free.value).all()
    assert (ranged.value < free.value * 0.95).any()
    assert "dual certificate in range" in ranged.source
    low, high = ab.LinfBall(0.5, 0, 1).limits(x)
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 9).double()
    for row in range(4):
        every = low[row] + corners * (high - low)[row]
        truth = (every @ matrix[row].T).norm(dim=1).max()
        assert truth <= ranged.value[row]
    assert ((x + ranged.delta >= -1e-12) & (x + ranged.delta <= 1 + 1e-12)).all()


def test_a_range_far_away_changes_nothing() -> None:
    matrix = cases.random_operator(6, seed=3, batch=2)
    ranged, free = (of(matrix, ball) for ball in (ab.LinfBall(0.1, -9, 9), ab.LinfBall(0.1)))
    torch.testing.assert_close(ranged.value, free.value, rtol=0, atol=0)
    assert set(ranged.values) == set(free.values)


def test_direction_has_norm_one() -> None:
    for p in (1, 1.5, 2, 3, math.inf):
        direction = of(cases.random_operator(6, seed=0, batch=3), ab.LpBall(1.0, p)).delta
        torch.testing.assert_close(
            torch.linalg.vector_norm(direction, p, dim=1), torch.ones(3).double()
        )


def test_the_status_is_that_of_what_gave_the_value() -> None:
    diagonal = torch.diag(torch.logspace(0, -3, 30, dtype=torch.float64))
    matrix = torch.stack([diagonal, torch.ones(30, 30).double()])
    hasty = NormSolver(dense_below=0, solver=SpectralSolver(tolerance=1e-12, max_iterations=8))
    found = of(matrix, UNIT, norm=hasty, dense=False)
    assert found.spectral.status == (Status.CONVERGED,) * 2
    assert found.source[0] == "dual certificate"
    assert found.status[0] == Status.ITERATION_LIMIT
    paper = of(matrix, UNIT, norm=None)
    assert paper.status == paper.spectral.status
