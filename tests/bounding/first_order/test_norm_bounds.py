"""Single bounds on p-to-2 norms, each against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import attribound as ab
import cases
import laws
from attribound.bounding.first_order.dense_limit import check_dense, fits, matrices
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.bounding.first_order.largest_column import largest_column
from attribound.operators import DenseOperator


def test_is_exact_on_the_cross_polytope() -> None:
    matrix = cases.random_operator(7, seed=0, batch=4, decay=0.3)
    value, vertex = largest_column(DenseOperator(matrix))
    torch.testing.assert_close(value, matrix.norm(dim=1).amax(1))
    torch.testing.assert_close(torch.einsum("bij,bj->bi", matrix, vertex).norm(dim=1), value)


def test_is_attained_and_not_above_the_l2_bound() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    ball = ab.LpBall(0.1, 1)
    bound = ab.bound(attribution, x, ball)
    assert bound.source == ("largest column",) * 2
    torch.testing.assert_close(bound.adjusted, bound.euclidean)  # seen at the vertex itself
    laws.never_below(ab.bound(attribution, x, ab.L2Ball(0.1)).euclidean, bound.euclidean)
    without = ab.bound(attribution, x, ball, method=ab.FirstOrder(dense=False))
    laws.never_below(without.euclidean, bound.euclidean)


@pytest.mark.parametrize("p", [3.0, 4.0, 10.0])
def test_corollary_1_scales_with_the_dimension_and_holds(p) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    ball = ab.LpBall(0.1, p)
    bound = ab.bound(attribution, x, ball, method=ab.FirstOrder(norm=None))
    truth = torch.full((2,), 0.5 * 4 ** (0.5 - 1 / p)).double()
    torch.testing.assert_close(bound.euclidean, truth)
    assert bound.source == ("corollary 1",) * 2
    laws.attack_below(ab.attacks.AttributionAscent()(attribution, x, ball), bound)


def test_corollary_1_is_attained_when_the_top_vector_is_a_corner() -> None:
    size = 4
    ones = torch.ones(size, size).double() / size
    model = cases.Quadratic(torch.stack([3 * ones, 0 * ones]), torch.eye(2, size).double())
    attribution, x = ab.Saliency(model), torch.full((1, size), 0.5).double()
    bound = ab.bound(attribution, x, ab.LinfBall(0.1), method=ab.FirstOrder(dense=False, norm=None))
    found = ab.attacks.AttributionAscent()(attribution, x, ab.LinfBall(0.1))
    torch.testing.assert_close(bound.euclidean.item(), 0.1 * 3 * math.sqrt(size))
    torch.testing.assert_close(found.deviation, bound.euclidean)


def at_corners(matrix):
    """The largest |J delta| over all corners of the unit cube, by trying them."""
    corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=matrix.shape[-1]))).double()
    return (corners @ matrix.mT).norm(dim=-1).amax(-1)


@pytest.mark.parametrize("size", [1, 2, 5, 10])
def test_is_an_upper_bound_on_all_corners(size) -> None:
    matrix = cases.random_operator(size, seed=size, batch=20, decay=0.5)
    laws.never_below(entrywise_sum(DenseOperator(matrix)), at_corners(matrix))


def test_equals_the_formula_of_the_paper() -> None:
    matrix = cases.random_operator(600, seed=0, batch=2)
    expected = (matrix.mT @ matrix).abs().sum((1, 2)).sqrt()
    torch.testing.assert_close(entrywise_sum(DenseOperator(matrix)), expected)


def test_p_is_j_transposed_times_j() -> None:
    """J = e1 1ᵀ, d = 12: the truth is 12; J Jᵀ would give 3.46, below it."""
    matrix = torch.zeros(1, 12, 12).double()
    matrix[0, 0] = 1
    assert at_corners(matrix).item() == 12
    torch.testing.assert_close(entrywise_sum(DenseOperator(matrix)).item(), 12.0)
    wrong = entrywise_sum(DenseOperator(matrix.mT))
    assert wrong.item() == pytest.approx(3.4641, rel=1e-4)
    with pytest.raises(AssertionError):
        laws.never_below(wrong, at_corners(matrix))


def test_is_attained_where_signs_agree() -> None:
    """A diagonal saliency: every corner attains the bound."""
    diagonal = torch.diag(torch.tensor([3.0, 2.0, 1.0])).double()
    model = cases.Quadratic(torch.stack([diagonal, 0 * diagonal]), torch.eye(2, 3).double())
    attribution, x, ball = ab.Saliency(model), torch.ones(2, 3).double(), ab.LinfBall(0.1)
    bound = ab.bound(attribution, x, ball)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    torch.testing.assert_close(bound.euclidean, torch.full((2,), 0.1 * 14**0.5).double())
    torch.testing.assert_close(found.deviation, bound.euclidean)
    assert bound.source == ("theorem 2",) * 2
    assert (bound.products >= 3).all()


def test_yields_the_matrices() -> None:
    matrix = cases.random_operator(70, seed=0, batch=2)
    torch.testing.assert_close(torch.stack([*matrices(DenseOperator(matrix))]), matrix)


@pytest.mark.parametrize("points", [1, 40, 100])
def test_matrices_are_built_from_few_evaluations_at_a_time(points) -> None:
    """64 at most, or one product if that takes more."""

    class Dear(cases.Counting):
        pass

    Dear.points = points
    for size in (70, 3):
        operator = Dear(cases.random_operator(size, seed=0))
        [*matrices(operator)]
        assert max(operator.rows) == min(size, max(1, 64 // points))


def test_refuses_before_any_product_is_spent() -> None:
    attribution, x = cases.quadratic([1.0] * 30)
    calls = []
    attribution.classifier.model.register_forward_hook(lambda *_: calls.append(1))
    attribution.linearize(x)  # probes
    calls.clear()
    method = ab.FirstOrder(dense=True, dense_limit=100)
    with pytest.raises(ab.MemoryLimitError, match=r"30 features; pass .*dense=False"):
        ab.bound(attribution, x, ab.LinfBall(0.1), method=method)
    assert len(calls) <= 4  # targets twice, graph and its size, no products


def test_limit_counts_bytes() -> None:
    like = DenseOperator(torch.zeros(1, 10, 10))
    check_dense(like, 3 * 100 * 4)
    with pytest.raises(ab.MemoryLimitError, match="dense Jacobian: expected at most"):
        check_dense(like, 3 * 100 * 4 - 1)
    with pytest.raises(ab.MemoryLimitError):
        check_dense(DenseOperator(like.matrix.double()), 3 * 100 * 4)


@pytest.mark.parametrize(("height", "needed"), [(30, 3 * 3 * 30), (3, 3 * 3 * 3), (2, 3 * 3 * 3)])
def test_limit_counts_the_matrix_and_its_product_with_itself(height, needed) -> None:
    """Of maps of another shape than the input, three numbers here, whichever is larger."""
    like = DenseOperator(torch.zeros(1, height, 3))
    assert fits(like, 4 * needed)
    assert not fits(like, 4 * needed - 1)


def test_what_is_not_asked_for_is_left_out_instead() -> None:
    attribution, x = cases.quadratic([1.0] * 30)
    bound = ab.bound(attribution, x, ab.LinfBall(0.1), method=ab.FirstOrder(dense_limit=100))
    assert "theorem 2" not in bound.values
    jacobian = attribution.linearize(x).jacobian
    assert fits(jacobian, 3 * 30 * 30 * 8)
    assert not fits(jacobian, 3 * 30 * 30 * 8 - 1)


@pytest.mark.parametrize("eigenvalues", [[-5.0, 3.0, 1.0], [2.0, 2.0, -2.0, 0.5], [7.0]])
def test_theorem_1_is_attained_on_a_quadratic(eigenvalues) -> None:
    """There the saliency is linear, so first order is the whole truth."""
    attribution, x = cases.quadratic(eigenvalues)
    ball = ab.L2Ball(0.1)
    bound = ab.bound(attribution, x, ball)
    truth = torch.full((2,), 0.1 * max(map(abs, eigenvalues))).double()
    torch.testing.assert_close(bound.euclidean, truth)
    torch.testing.assert_close(bound.adjusted, truth)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    torch.testing.assert_close(found.deviation, truth, rtol=1e-3, atol=0)
    laws.attack_below(found, bound)
    assert bound.source == ("theorem 1",) * 2


def test_direction_is_the_right_singular_vector() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    direction = ab.bound(attribution, x, ab.L2Ball(0.1)).direction
    top = cases.rotation(3)[:, 0]
    torch.testing.assert_close((direction @ top).abs(), torch.ones(2).double())


def test_direction_is_not_the_left_one() -> None:
    """A linear attribution with J = e1 1ᵀ: v = 1 / sqrt(d), u = e1."""
    matrix = torch.zeros(4, 4).double()
    matrix[0] = 1
    attribution = ab.FunctionAttribution(lambda x, target: x @ matrix.T)
    bound = ab.bound(attribution, torch.rand(2, 4).double(), ab.L2Ball(0.1), target=0)
    torch.testing.assert_close(bound.direction.abs(), torch.full((2, 4), 0.5).double())
    torch.testing.assert_close(bound.adjusted, torch.full((2,), 0.2).double())


def test_smaller_p_lies_within_the_l2_ball() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    inside = ab.bound(attribution, x, ab.LpBall(0.1, 1.5))
    torch.testing.assert_close(inside.euclidean, ab.bound(attribution, x, ab.L2Ball(0.1)).euclidean)
    assert inside.source == ("theorem 1, ball within the l2 ball",) * 2
