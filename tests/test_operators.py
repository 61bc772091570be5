from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import attribound as ab
import cases
import laws
from attribound.operators import Block, BlockOperator, DenseOperator, dense

BATCH, SIZE = 8, 3
MATRIX = cases.random_operator(SIZE, seed=0, batch=BATCH)
V = torch.randn(BATCH, SIZE, generator=torch.Generator().manual_seed(1)).double()


@dataclass
class Counted:
    """Makes block operators of MATRIX, and writes down what is computed and what is built."""

    size: int = 4
    products: list[int] = field(default_factory=list)
    built: list[list[int]] = field(default_factory=list)

    def block(self, index: Tensor, places: Tensor, share: float = 1.0) -> Block:
        products = self.products

        class Counting(DenseOperator):
            def matvec(self, v: Tensor) -> Tensor:
                products.append(len(v))
                return super().matvec(v)

        rows = torch.arange(len(places))
        return Block(Counting(share * MATRIX[index[places]]), rows, places)

    def build(self, index: Tensor) -> Sequence[Block]:
        self.built.append(index.tolist())
        places = torch.arange(len(index)).split(self.size)
        return [self.block(index, some) for some in places]

    def operator(self) -> BlockOperator:
        operator = BlockOperator(V, V, self.build(torch.arange(BATCH)), self.build)
        self.built.clear()
        return operator


@pytest.mark.parametrize("law", laws.OPERATOR_LAWS)
@pytest.mark.parametrize("size", [1, 3, 4, 8])
def test_laws(law, size) -> None:
    law(DenseOperator(MATRIX))
    law(Counted(size).operator())


def test_products_are_those_of_the_matrices() -> None:
    laws.equals_dense(DenseOperator(MATRIX), MATRIX)
    laws.equals_dense(Counted().operator(), MATRIX)
    assert DenseOperator(MATRIX).domain.shape == (BATCH, SIZE)


def product_after(operator: BlockOperator, rows: list[int]) -> BlockOperator:
    """The operator of some rows, its product checked."""
    index = torch.tensor(rows)
    chosen = operator.select(index)
    laws.equals_dense(chosen, MATRIX[index])
    return chosen


def test_a_block_that_nobody_needs_costs_nothing() -> None:
    log = Counted()
    product_after(log.operator(), [4, 5, 6, 7])
    assert log.products == [4]
    assert log.built == []


def test_a_block_that_lost_less_than_half_is_kept_and_padded() -> None:
    log = Counted()
    product_after(log.operator(), [2, 0, 1])
    assert log.products == [4]
    assert log.built == []


def test_a_block_that_lost_half_is_built_again_for_the_rest() -> None:
    log = Counted()
    product_after(log.operator(), [3, 0, 4, 5, 6])
    assert log.products == [4, 2]
    assert log.built == [[3, 0]]


def test_losses_add_up_over_selections() -> None:
    """The last example is built from the first operator, wherever it has moved to."""
    log = Counted()
    once = product_after(log.operator(), [7, 6, 5, 0])
    assert log.built == [[0]]
    twice = once.select(torch.tensor([2, 1]))
    laws.equals_dense(twice, MATRIX[[5, 6]])
    assert log.built == [[0], [5, 6]]
    thrice = twice.select(torch.tensor([1]))
    laws.equals_dense(thrice, MATRIX[[6]])
    assert log.built == [[0], [5, 6], [6]]


def test_repeated_examples_are_built_again() -> None:
    log = Counted()
    product_after(log.operator(), [1, 1, 1, 5])
    assert log.built == [[1, 1, 1, 5]]


def test_symmetry_and_cost_survive_selection() -> None:
    symmetric = MATRIX + MATRIX.mT

    def build(index: Tensor) -> list[Block]:
        rows = torch.arange(len(index))
        return [Block(DenseOperator(symmetric[index]), rows, rows)]

    operator = BlockOperator(V, V, build(torch.arange(BATCH)), build, True, 5)
    for rows in ([0, 1, 2, 3, 4, 5], [2], [1, 1]):
        chosen = operator.select(torch.tensor(rows))
        assert chosen.symmetric
        assert chosen.points == 5
        laws.equals_dense(chosen, symmetric[rows])


def overlapping(log: Counted, *parts: tuple[list[int], float]) -> BlockOperator:
    """Blocks that each hold a share of some examples' matrices."""

    def build(index: Tensor) -> list[Block]:
        log.built.append(index.tolist())
        blocks = []
        for wanted, share in parts:
            places = torch.isin(index, torch.tensor(wanted)).nonzero().flatten()
            if len(places):
                blocks.append(log.block(index, places, share))
        return blocks

    return BlockOperator(V, V, build(torch.arange(BATCH)), build)


def test_blocks_that_overlap_add_up() -> None:
    each = [([i], share) for i in range(BATCH) for share in (0.3, 0.7)]
    operator = overlapping(Counted(), *each)
    laws.equals_dense(operator, MATRIX)
    for law in laws.OPERATOR_LAWS:
        law(operator)


@pytest.mark.parametrize("rows", [[3, 4], [5, 3, 4], [7], [0, 1, 2, 3, 4], [4, 0]])
def test_blocks_that_overlap_in_part_add_up_after_selection(rows) -> None:
    """Where one of them is built again, the other must not count twice."""
    wide, left = (list(range(BATCH)), 0.4), ([0, 1, 2], 0.6)
    middle, right = ([3, 4], 0.6), ([5, 6, 7], 0.6)
    operator = overlapping(Counted(), wide, left, middle, right)
    laws.equals_dense(operator, MATRIX)
    product_after(operator, rows)


@pytest.mark.parametrize("at_once", [1, 2, SIZE, 7])
def test_dense_gives_the_matrix_of_one_example(at_once) -> None:
    for operator in (DenseOperator(MATRIX), Counted().operator()):
        torch.testing.assert_close(dense(operator, 5, at_once), MATRIX[5], **laws.TIGHT)


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_dense_of_an_attribution(network) -> None:
    model, x = cases.NETWORKS[network]()
    target = torch.zeros(len(x), dtype=torch.long)
    jacobian = ab.InputXGradient(model).linearize(x, target).jacobian
    with sdpa_kernel(SDPBackend.MATH):
        expected = cases.dense_jacobian(lambda p: p * cases.gradient(model, p, target), x)
    torch.testing.assert_close(dense(jacobian, 1, 5), expected[1], **laws.TIGHT)
