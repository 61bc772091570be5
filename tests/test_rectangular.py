"""Operators whose range is not their domain: products, singular values, norms of p-balls and boxes.

Everything against dense matrices in float64: SVD, all corners, ascent from many starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import attribound as ab
import brute_force
import cases
import laws
from attribound.attributions.autograd import FunctionJacobian
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.bounding.first_order.largest_column import largest_column
from attribound.operators import Block, BlockOperator, ColumnScaled, DenseOperator, dense
from attribound.spectral.homogenised import homogenised

SHAPES = [(3, 7), (7, 3), (1, 6), (6, 1), (6, 7), (7, 6)]
BATCH = 4
TIGHT = ab.SpectralSolver(tolerance=1e-9)


def matrix(shape: tuple[int, int], seed: int = 0, batch: int = BATCH) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, *shape, generator=generator).double()


def blocks(whole: Tensor, size: int) -> BlockOperator:
    def build(index: Tensor) -> list[Block]:
        places = torch.arange(len(index)).split(size)
        return [
            Block(DenseOperator(whole[index[some]]), torch.arange(len(some)), some)
            for some in places
        ]

    every = torch.arange(len(whole))
    return BlockOperator(whole[:, 0], whole[:, :, 0], build(every), build)


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_law(shape, law) -> None:
    whole = matrix(shape)
    law(DenseOperator(whole))
    law(ColumnScaled(DenseOperator(whole), whole[:, 0].exp()))
    law(homogenised(DenseOperator(whole), -whole[:, 0].abs(), whole[:, 0].abs() + 1))
    for size in (1, 3, 4):
        law(blocks(whole, size))


@dataclass(frozen=True, eq=False)
class WrongTranspose(DenseOperator):
    """Its transpose forgets the last row."""

    def rmatvec(self, u: Tensor) -> Tensor:
        return torch.einsum("bij,bi->bj", self.matrix[:, :-1], u[:, :-1])


@dataclass(frozen=True, eq=False)
class Rounding(DenseOperator):
    """Makes what is not like its range."""

    def matvec(self, v: Tensor) -> Tensor:
        return super().matvec(v).float()


def test_the_laws_reject_what_is_broken() -> None:
    whole = matrix((3, 7))
    with pytest.raises(AssertionError):
        laws.adjoint(WrongTranspose(whole))
    with pytest.raises(AssertionError):
        laws.equals_dense(WrongTranspose(whole), whole)
    with pytest.raises(AssertionError):
        laws.shaped(Rounding(whole))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_matrix(shape) -> None:
    whole = matrix(shape)
    operator = DenseOperator(whole)
    assert operator.domain.shape == (BATCH, shape[1])
    assert operator.range.shape == (BATCH, shape[0])
    laws.equals_dense(operator, whole)
    for at_once in (1, 2, 10):
        torch.testing.assert_close(dense(operator, 2, at_once), whole[2])
        torch.testing.assert_close(dense(blocks(whole, 3), 2, at_once), whole[2])


@pytest.mark.parametrize("rows", [[3, 0], [1], [0, 1, 2], [2, 2, 0], [3, 2, 1, 0], [1, 2, 3]])
@pytest.mark.parametrize("shape", [(3, 7), (7, 3)], ids=str)
def test_blocks_are_selected(shape, rows) -> None:
    """Kept and padded, built anew, or left out: the products are those of the matrices."""
    whole = matrix(shape)
    index = torch.tensor(rows)
    for size in (1, 2, 4):
        chosen = blocks(whole, size).select(index)
        laws.equals_dense(chosen, whole[index])
        assert chosen.domain.shape == (len(rows), shape[1])
        assert chosen.range.shape == (len(rows), shape[0])
        again = chosen.select(torch.tensor([len(rows) - 1]))
        laws.equals_dense(again, whole[index[-1:]])


@pytest.mark.parametrize("solver", [TIGHT, ab.SpectralSolver(), ab.SpectralSolver(stop="ritz")])
@pytest.mark.parametrize("shape", [*SHAPES, (5, 60), (60, 5)], ids=str)
def test_singular_values_against_the_dense_ones(shape, solver) -> None:
    whole = matrix(shape)
    found = solver(DenseOperator(whole))
    truth = torch.linalg.svdvals(whole)[:, 0]
    laws.never_below(found.value.upper, truth)
    laws.never_below(truth * (1 + 1e-12), found.value.lower)
    if solver.stop == "upper":
        assert (found.value.upper <= truth * (1 + solver.tolerance) * (1 + 1e-9)).all()
        assert all(status is ab.Status.CONVERGED for status in found.status)
    assert found.left.shape == (BATCH, shape[0])
    assert found.right.shape == (BATCH, shape[1])
    image = torch.einsum("bij,bj->bi", whole, found.right)
    torch.testing.assert_close(image.norm(dim=1), found.value.lower, rtol=solver.tolerance, atol=0)
    torch.testing.assert_close(found.right.norm(dim=1), torch.ones(BATCH).double())


def test_operators_that_are_zero_and_of_low_rank() -> None:
    zero = TIGHT(DenseOperator(torch.zeros(2, 3, 7).double()))
    assert zero.value.upper.tolist() == [0, 0]
    column = matrix((3, 1)) @ matrix((1, 7), seed=1)
    found = TIGHT(DenseOperator(column))
    truth = torch.linalg.svdvals(column)[:, 0]
    torch.testing.assert_close(found.value.upper, truth, rtol=1e-8, atol=0)


SOLVERS = [ab.NormSolver(), ab.NormSolver(dense_below=0)]


@pytest.mark.parametrize("solver", SOLVERS, ids=["dense", "matrix-free"])
@pytest.mark.parametrize("p", [3.0, math.inf])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_of_p_balls_against_brute_force(shape, p, solver) -> None:
    whole = matrix(shape)
    found = solver(DenseOperator(whole), p)
    truth = brute_force.cube(whole) if p == math.inf else brute_force.ball(whole, p)
    laws.never_below(found.value.upper, truth)
    laws.never_below(truth * (1 + 1e-9), found.value.lower)
    assert (found.value.upper <= truth * 1.3).all()
    assert (found.value.lower >= truth * 0.9).all()
    assert found.point.shape == (BATCH, shape[1])
    image = torch.einsum("bij,bj->bi", whole, found.point)
    torch.testing.assert_close(image.norm(dim=1), found.value.lower, rtol=1e-6, atol=0)


@pytest.mark.parametrize("solver", SOLVERS, ids=["dense", "matrix-free"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_of_boxes_against_brute_force(shape, solver) -> None:
    whole = matrix(shape)
    generator = torch.Generator().manual_seed(5)
    low, high = (torch.rand(BATCH, shape[1], generator=generator).double() for _ in range(2))
    low = -low
    found = solver.box(DenseOperator(whole), low, high)
    truth = brute_force.box(whole, low, high)
    laws.never_below(found.value.upper, truth)
    laws.never_below(truth * (1 + 1e-9), found.value.lower)
    assert (found.value.upper <= truth * 1.3).all()
    assert ((found.point >= low) & (found.point <= high)).all()


def test_a_norm_of_the_transpose_would_be_noticed() -> None:
    """The broken variant: solving for the other side gives another number."""
    whole = matrix((3, 7))
    right, wrong = (ab.NormSolver()(DenseOperator(m)) for m in (whole, whole.mT))
    truth = brute_force.cube(whole)
    laws.never_below(right.value.upper, truth)
    with pytest.raises(AssertionError):
        laws.never_below(wrong.value.upper, truth)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_of_the_paper(shape) -> None:
    whole = matrix(shape)
    value, vertex = largest_column(DenseOperator(whole))
    torch.testing.assert_close(value, whole.norm(dim=1).amax(1))
    torch.testing.assert_close(torch.einsum("bij,bj->bi", whole, vertex).norm(dim=1), value)
    total = entrywise_sum(DenseOperator(whole))
    torch.testing.assert_close(total, (whole.mT @ whole).abs().sum((1, 2)).sqrt())
    laws.never_below(total, brute_force.cube(whole))


def wide(x: Tensor, target: Tensor) -> Tensor:
    """From (batch, 2, 3) to (batch, 4, 2, 3): more scores than features."""
    return torch.stack([x**2, x.sin() * x.flip(1), x * target.view(-1, 1, 1), x.exp()], 1)


def narrow(x: Tensor, target: Tensor) -> Tensor:
    """From (batch, 2, 3) to (batch, 2)."""
    return (x**2).sum(2) * (1 + target.unsqueeze(1)) + x.prod(2)


@pytest.mark.parametrize("fn", [wide, narrow])
def test_jacobians_of_functions(fn) -> None:
    x = torch.rand(BATCH, 2, 3, generator=torch.Generator().manual_seed(0)).double() + 0.1
    target = torch.tensor([0, 1, 2, 3])
    whole = cases.dense_jacobian(lambda z: fn(z, target), x)
    operator = FunctionJacobian(fn, x, target)
    assert operator.domain.shape == x.shape
    assert operator.range.shape == fn(x, target).shape
    attribution = ab.FunctionAttribution(fn).linearize(x, target)
    assert attribution.value.shape == fn(x, target).shape
    for jacobian in (operator, attribution.jacobian):
        laws.equals_dense(jacobian, whole)
        for law in laws.OPERATOR_LAWS:
            law(jacobian)
    truth = torch.linalg.svdvals(whole)[:, 0]
    torch.testing.assert_close(TIGHT(attribution.jacobian).value.upper, truth, rtol=1e-8, atol=0)
