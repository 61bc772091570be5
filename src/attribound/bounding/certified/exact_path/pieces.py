"""The pieces of a network that one path runs through: arguments, derivatives, and their errors.

A cell is a part of the path with its masks; what is expanded is the affine function that these
masks define, whatever the true masks are, so that a crossing misplaced by rounding costs
nothing but a term of its own size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.exact.cells import StraightPaths, breakpoints
from attribound.attributions.exact.piecewise import PiecewiseLinear
from attribound.basics.errors import MemoryLimitError
from attribound.basics.rounding import UNIT
from attribound.bounding.certified.rectified import slopes_where
from attribound.networks.affine import Stage

_GRID = 24  # cells at least: boxes are taken over one of them


@dataclass(frozen=True, eq=False)
class LayerPieces:
    """The neurons of one hinge in all K cells; R runs are cells with the same masks before it.

    Attributes:
        on: whether they are on, ``(K, n)``.
        low, high: arguments at the start and the end of the cells, ``(K, n)``.
        error: of these, from above.
        run: of each cell, ``(K,)``.
        rows: derivatives of the arguments by the input, ``(R, n, d)``.
        row_error: norms of the errors of the rows, ``(n,)``, in the Euclidean and sum norm alike.
        reach: derivatives by the outputs of each layer before, ``(R, n, n_k)``.
        adjoint: derivative of the logit by their outputs, ``(K, n)``.
        adjoint_error: of it, ``(n,)``.
    """

    on: Tensor
    low: Tensor
    high: Tensor
    error: Tensor
    run: Tensor
    rows: Tensor
    row_error: Tensor
    reach: tuple[Tensor, ...]
    adjoint: Tensor
    adjoint_error: Tensor


@dataclass(frozen=True, eq=False)
class Pieces:
    """One path in cells from ``start`` to ``end``, ``(K,)``, and all layers on it.

    Attributes:
        away: x - base, ``(d,)``.
        mean: mean gradient of the pieces, ``(d,)``; ``mean_error`` of its components.
        margin: relative error of products through all stages, against absolute values.
        absolute: |W| of every stage but the last.
    """

    start: Tensor
    end: Tensor
    away: Tensor
    layers: tuple[LayerPieces, ...]
    slopes: tuple[float, ...]
    mean: Tensor
    mean_error: Tensor
    margin: float
    absolute: tuple[Tensor, ...]


def check_memory(network: PiecewiseLinear, limit: int) -> None:
    """Refuse dense derivatives of all pieces that would not fit."""
    size, cells = network.stages[0].sizes[0], network.neurons + _GRID
    deep = sum(network.widths[1:])
    needed = 8 * (cells * deep * (size + network.neurons) + network.neurons * size)
    if needed > limit:
        raise MemoryLimitError(
            "certificate of exact integrated gradients",
            expected=f"at most {limit / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB for {size} features and {network.neurons} neurons",
            remedy="raise Certified(memory_limit=...), or use the claim mean_value",
        )


def pieces(network: PiecewiseLinear, base: Tensor, x: Tensor, target: int) -> Pieces:
    """The pieces between ``base`` and ``x``, both ``(1, d)`` in float64."""
    lines = StraightPaths(base, x - base)
    _, places = breakpoints(network, lines, 0.0, 1.0)
    grid = torch.linspace(0, 1, _GRID + 1, dtype=torch.float64)
    places = torch.cat([places, grid]).sort().values
    places = places[torch.cat([places.new_ones(1).bool(), places[1:] > places[:-1]])]
    start, end = places[:-1], places[1:]
    masks = network.masks(lines.at((start + end) / 2, torch.zeros(len(start), dtype=torch.long)))
    matrices = [_matrix(stage) for stage in network.stages]
    sizes = [_matrix(stage.absolute()) for stage in network.stages]
    margin = 8 * sum(stage.margin for stage in network.stages)
    adjoints, chains = _backward(network, masks, matrices, sizes, target)
    layers: list[LayerPieces] = []
    ends = [_Point.at(base, x, places) for places in (start, end)]
    chain = torch.eye(x.shape[1], dtype=torch.float64)
    before = torch.ones(len(start), x.shape[1], dtype=torch.float64)
    run = torch.zeros(len(start), dtype=torch.long)
    for number, part in enumerate(network.layers):
        stage, weight, slope = network.stages[number], matrices[number], network.slopes[number]
        on = masks[:, part]
        first = _firsts(run)
        scaled = before[first].unsqueeze(2)
        rows, reach = weight.unsqueeze(0), tuple[Tensor, ...]()
        if layers:
            last = layers[-1]
            rows = weight @ (scaled * last.rows[last.run[first]])
            earlier = [weight @ (scaled * each[last.run[first]]) for each in last.reach]
            reach = (*earlier, weight.expand(len(first), -1, -1))
        chain = sizes[number] @ chain
        values = [point.through(stage, sizes[number], margin) for point in ends]
        factor = slopes_where(on, slope)
        layers.append(
            LayerPieces(
                on,
                values[0].value,
                values[1].value,
                torch.maximum(values[0].error, values[1].error),
                run,
                rows,
                margin * chain.sum(1),
                reach,
                adjoints[number],
                margin * chains[number],
            )
        )
        ends = [value.hinged(factor) for value in values]
        changed = (on[1:] != on[:-1]).any(1) | (run[1:] != run[:-1])
        run = torch.cat([run.new_zeros(1), changed.cumsum(0)])
        before = factor
    gradient = network.gradient(masks, torch.full((len(start),), target))
    chain = sizes[-1][target]
    for size in reversed(sizes[:-1]):
        chain = chain @ size
    return Pieces(
        start,
        end,
        (x - base)[0],
        tuple(layers),
        network.slopes,
        ((end - start).unsqueeze(1) * gradient).sum(0),
        (margin + 4 * len(start) * UNIT) * chain,
        margin,
        tuple(sizes[:-1]),
    )


@dataclass(frozen=True, eq=False)
class _Point:
    """Numbers at the ends of cells, ``(K, n)``, and how wrong they are at most."""

    value: Tensor
    error: Tensor

    @classmethod
    def at(cls, base: Tensor, x: Tensor, places: Tensor) -> _Point:
        value = base + places.unsqueeze(1) * (x - base)
        return cls(value, (8 * UNIT * (base.abs() + x.abs())).expand_as(value))

    def through(self, stage: Stage, size: Tensor, margin: float) -> _Point:
        error = margin * stage.magnitude(self.value.abs()) + self.error @ size.T
        return _Point(stage.value(self.value), error * (1 + margin))

    def hinged(self, factor: Tensor) -> _Point:
        # Factors are at most 1 in size; the next margin counts the product's own rounding.
        return _Point(factor * self.value, self.error)


def _matrix(stage: Stage) -> Tensor:
    return stage.linear(torch.eye(stage.sizes[0], dtype=torch.float64)).T


def _firsts(run: Tensor) -> Tensor:
    """The first cell of each run."""
    first = torch.ones_like(run, dtype=torch.bool)
    first[1:] = run[1:] != run[:-1]
    return first.nonzero().flatten()


def _backward(
    network: PiecewiseLinear,
    masks: Tensor,
    matrices: list[Tensor],
    sizes: list[Tensor],
    target: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """Derivatives of the logit by the outputs of every layer, ``(K, n)``, and their sizes."""
    adjoint = matrices[-1][target].expand(len(masks), -1)
    size = sizes[-1][target]
    adjoints, chains = [adjoint], [size]
    for number in range(len(network.widths) - 1, 0, -1):
        factor = slopes_where(masks[:, network.layers[number]], network.slopes[number])
        adjoint = (factor * adjoint) @ matrices[number]
        size = size @ sizes[number]
        adjoints.append(adjoint)
        chains.append(size)
    return adjoints[::-1], chains[::-1]
