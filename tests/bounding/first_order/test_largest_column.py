from __future__ import annotations

import torch

import attribound as ab
import cases
import laws
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
