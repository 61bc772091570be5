"""Batched linear operators: one matrix per example, known by its products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class LinearOperator(ABC):
    """A matrix per example; examples never see each other.

    It takes what is like ``domain``, of shape ``(batch, *features)``, to what is like
    ``range``, which may have any other shape ``(batch, *scores)``.

    Attributes:
        symmetric: every matrix equals its transpose; solvers then save half the products.
        points: evaluations of the model that one product costs for one example.
    """

    symmetric: bool = False
    points: int = 1

    @property
    @abstractmethod
    def domain(self) -> Tensor:
        """A tensor of the shape, dtype and device of what the operator acts on."""

    @property
    def range(self) -> Tensor:
        """A tensor of the shape, dtype and device of what it makes; like ``domain`` if square."""
        return self.domain

    def __len__(self) -> int:
        return len(self.domain)

    @abstractmethod
    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""

    @abstractmethod
    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""

    @abstractmethod
    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index`` (in that order, repeats allowed)."""


@dataclass(frozen=True, eq=False)
class DenseOperator(LinearOperator):
    """Matrices ``(batch, m, n)`` acting on ``(batch, n)``: for tests and small problems."""

    matrix: Tensor

    @property
    def domain(self) -> Tensor:
        """The first rows, of the right shape."""
        return self.matrix[:, 0]

    @property
    def range(self) -> Tensor:
        """The first columns, of the right shape."""
        return self.matrix[:, :, 0]

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        return torch.einsum("bij,bj->bi", self.matrix, v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        return torch.einsum("bij,bi->bj", self.matrix, u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return DenseOperator(self.matrix[index])


@dataclass(frozen=True, eq=False)
class Block:
    """An operator that serves some examples of a batch.

    Attributes:
        operator: acts on the examples it was made for, some of which may have left.
        rows: the examples of ``operator`` still wanted.
        places: where these stand in the batch.
    """

    operator: LinearOperator
    rows: Tensor
    places: Tensor

    def add(self, v: Tensor, out: Tensor, transpose: bool) -> None:
        """Add this block's share of the product with ``v`` to ``out``."""
        product = self.operator.rmatvec if transpose else self.operator.matvec
        if len(self.rows) == len(self.operator):  # nobody has left
            out.index_add_(0, self.places, product(v[self.places]))
            return
        padded = torch.zeros_like(self.operator.range if transpose else self.operator.domain)
        padded[self.rows] = v[self.places]
        out.index_add_(0, self.places, product(padded)[self.rows])


@dataclass(frozen=True, eq=False)
class BlockOperator(LinearOperator):
    """The sum of blocks, each with a graph of its own, so that examples can leave the batch.

    A block whose examples have all left costs nothing more; one that has lost
    half of them is built again for the rest; one that lost fewer computes the
    rest beside zeros.

    Attributes:
        domain_like, range_like: tensors ``(batch, *features)`` and ``(batch, *scores)``.
        blocks: may overlap, then they add up.
        build: makes the blocks of the examples ``index`` of this operator's batch.
    """

    domain_like: Tensor
    range_like: Tensor
    blocks: Sequence[Block]
    build: Callable[[Tensor], Sequence[Block]]
    symmetric: bool = False
    points: int = 1

    @property
    def domain(self) -> Tensor:
        """A tensor like what it acts on."""
        return self.domain_like

    @property
    def range(self) -> Tensor:
        """A tensor like what it makes."""
        return self.range_like

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        return self._product(v, transpose=False)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        return self._product(u, transpose=not self.symmetric)

    def _product(self, v: Tensor, *, transpose: bool) -> Tensor:
        out = torch.zeros_like(self.domain_like if transpose else self.range_like)
        for block in self.blocks:
            block.add(v, out, transpose)
        return out

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        place_of = torch.full((len(self),), -1, dtype=torch.long, device=index.device)
        place_of[index] = torch.arange(len(index), device=index.device)
        distinct = len(set(index.tolist())) == len(index)
        kept: list[Block] = []
        stale = torch.zeros(len(self), dtype=torch.bool, device=index.device)
        for block in self.blocks:
            stays = place_of[block.places] >= 0
            enough = 2 * int(stays.sum()) > len(block.operator)
            if distinct and enough:
                places = place_of[block.places[stays]]
                kept.append(Block(block.operator, block.rows[stays], places))
            else:
                stale[block.places[stays]] = True
        again = stale[index].nonzero().flatten()
        if len(again):
            # What is built again is built whole: blocks that share it must let go of it.
            held = [(block, ~stale[index][block.places]) for block in kept]
            kept = [Block(b.operator, b.rows[keep], b.places[keep]) for b, keep in held]
            fresh = self.build(index[again])
            kept += [Block(b.operator, b.rows, again[b.places]) for b in fresh]
        parent = index
        return BlockOperator(
            self.domain_like[index],
            self.range_like[index],
            kept,
            lambda wanted: self.build(parent[wanted]),
            self.symmetric,
            self.points,
        )


def dense(operator: LinearOperator, example: int, at_once: int) -> Tensor:
    """The matrix ``(m, n)`` of one example, ``at_once`` columns per product."""
    size, height = operator.domain[0].numel(), operator.range[0].numel()
    matrix = operator.domain.new_empty(height, size)
    repeated: LinearOperator | None = None
    for start in range(0, size, at_once):
        count = min(at_once, size - start)
        if repeated is None or len(repeated) != count:
            index = torch.full((count,), example, device=operator.domain.device)
            repeated = operator.select(index)
        basis = torch.zeros_like(repeated.domain).flatten(1)
        basis[torch.arange(count), start + torch.arange(count)] = 1
        columns = repeated.matvec(basis.view_as(repeated.domain))
        matrix[:, start : start + count] = columns.flatten(1).T
    return matrix


@dataclass(frozen=True, eq=False)
class ColumnScaled(LinearOperator):
    """``J Diag(scale)``, per example; ``scale`` has the shape of what J acts on."""

    operator: LinearOperator
    scale: Tensor

    def __post_init__(self) -> None:
        """A product costs what the operator's costs."""
        object.__setattr__(self, "points", self.operator.points)

    @property
    def domain(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def range(self) -> Tensor:
        """As the operator's."""
        return self.operator.range

    def matvec(self, v: Tensor) -> Tensor:
        """``J (scale * v)``, per example."""
        return self.operator.matvec(self.scale * v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``scale * J^T u``, per example."""
        return self.scale * self.operator.rmatvec(u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return ColumnScaled(self.operator.select(index), self.scale[index])
