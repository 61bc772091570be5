"""Every law rejects an object that was broken on purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import attribound as ab
import cases
import laws
from attribound.operators import DenseOperator, LinearOperator

MATRIX = cases.random_operator(4, seed=0, batch=3)


@dataclass(frozen=True, eq=False)
class NotAdjoint(DenseOperator):
    def rmatvec(self, u: Tensor) -> Tensor:
        return self.matvec(u)


@dataclass(frozen=True, eq=False)
class NotLinear(DenseOperator):
    def matvec(self, v: Tensor) -> Tensor:
        return super().matvec(v) + 1e-3 * v**2


@dataclass(frozen=True, eq=False)
class FalselySymmetric(DenseOperator):
    symmetric: bool = True


@dataclass(frozen=True, eq=False)
class ForgetsOrder(DenseOperator):
    def select(self, index: Tensor) -> LinearOperator:
        return DenseOperator(self.matrix[index.sort().values])


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        (laws.adjoint, NotAdjoint(MATRIX)),
        (laws.linear, NotLinear(MATRIX)),
        (laws.symmetric_if_claimed, FalselySymmetric(MATRIX)),
        (laws.selects, ForgetsOrder(MATRIX)),
    ],
)
def test_law_rejects_a_broken_operator(law, broken) -> None:
    law(DenseOperator(MATRIX))
    with pytest.raises(AssertionError):
        law(broken)


def test_equality_with_the_dense_matrix_rejects_the_transpose() -> None:
    laws.equals_dense(DenseOperator(MATRIX), MATRIX)
    with pytest.raises(AssertionError):
        laws.equals_dense(DenseOperator(MATRIX.mT), MATRIX)


def test_never_below_rejects_a_ritz_value() -> None:
    with pytest.raises(AssertionError):
        laws.never_below(torch.tensor([1.0, 0.999]), torch.tensor([1.0, 1.0]))


def test_inside_rejects_a_perturbation_of_the_next_larger_ball() -> None:
    delta = torch.full((1, 4), 0.1)
    laws.inside(delta, ab.LinfBall(0.1))
    with pytest.raises(AssertionError):
        laws.inside(delta, ab.L2Ball(0.1))


def test_attack_below_rejects_a_bound_ten_percent_too_small() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    ball = ab.L2Ball(0.1)
    bound = ab.bound(attribution, x, ball)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    laws.attack_below(found, bound)
    with pytest.raises(AssertionError):
        laws.attack_below(found, replace(bound, euclidean=0.9 * bound.euclidean))
