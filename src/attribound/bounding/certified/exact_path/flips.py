"""What can switch on each cell when the input moves in a ball, and the derivatives of the logit.

Forward: the output of a neuron is its piece's plus t with ``0 <= t <= tau``, because hinges are
convex. Backward: the derivative of the logit by the output of a neuron is that of the piece plus
what neurons after it add when they switch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attribound.bounding.certified.exact_path.pieces import LayerPieces, Pieces


@dataclass(frozen=True, eq=False)
class LayerFlips:
    """One layer in all cells.

    Attributes:
        radius: of how far ``rows . delta`` goes, ``(R, n)``.
        down, up: how far neurons before it move the argument beside that, ``(K, n)``.
        can: whether the neuron may switch, ``(K, n)``.
        low, high: of the derivative of the logit by its output in the ball, ``(K, n)``.
    """

    radius: Tensor
    down: Tensor
    up: Tensor
    can: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True, eq=False)
class _Ahead:
    radius: Tensor
    down: Tensor
    up: Tensor
    can: Tensor
    most: Tensor  # tau
    chain: Tensor  # of absolute values, for errors


def flips(pieces: Pieces, ball: PathBall) -> list[LayerFlips]:
    """Every layer when the input moves in the ball."""
    ahead: list[_Ahead] = []
    for number, layer in enumerate(pieces.layers):
        ahead.append(_forward(pieces, number, layer, ball, ahead))
    found: list[LayerFlips] = []
    moved: list[tuple[Tensor, Tensor, Tensor]] = []  # of layers after: least, most, chain
    for number in range(len(pieces.layers) - 1, -1, -1):
        layer, here = pieces.layers[number], ahead[number]
        low, high, chain = _backward(pieces, number, moved)
        spare = layer.adjoint_error + pieces.margin * chain
        low, high = layer.adjoint - low - spare, layer.adjoint + high + spare
        low, high = low - SLACK * low.abs() - TINY, high + SLACK * high.abs() + TINY
        found.insert(0, LayerFlips(here.radius, here.down, here.up, here.can, low, high))
        change = 1 - pieces.slopes[number]
        sign = change * torch.where(layer.on, -1.0, 1.0).double()
        ends = torch.stack([torch.zeros_like(low), sign * low, sign * high])
        ends = torch.where(here.can, ends, 0.0)
        moved.insert(0, (ends.amin(0), ends.amax(0), ends.abs().amax(0) + chain))
    return found


def _forward(
    pieces: Pieces, number: int, layer: LayerPieces, ball: PathBall, before: list[_Ahead]
) -> _Ahead:
    radius = (ball.of(layer.rows) + layer.row_error * ball.furthest) * (1 + SLACK)
    up, down = torch.zeros_like(layer.low), torch.zeros_like(layer.low)
    for earlier, matrix in zip(before, layer.reach, strict=True):
        up += _by_run(matrix.clamp_min(0), earlier.most, layer.run)
        down += _by_run((-matrix).clamp_min(0), earlier.most, layer.run)
    chain = torch.zeros_like(layer.low)
    if before:
        chain = (before[-1].chain + before[-1].most) @ pieces.absolute[number].T
    spare = layer.error + pieces.margin * chain
    up, down = (up + spare) * (1 + SLACK) + TINY, (down + spare) * (1 + SLACK) + TINY
    start, end = pieces.start.unsqueeze(1), pieces.end.unsqueeze(1)
    wide = radius[layer.run]
    highest = torch.maximum(layer.low + start * wide, layer.high + end * wide) + up
    lowest = torch.minimum(layer.low - start * wide, layer.high - end * wide) - down
    beyond = torch.where(layer.on, -lowest, highest)
    most = (1 - pieces.slopes[number]) * beyond.clamp_min(0) * (1 + SLACK)
    return _Ahead(radius, down, up, beyond >= 0, most, chain)


def _by_run(matrices: Tensor, values: Tensor, run: Tensor) -> Tensor:
    """``matrices[run] @ values`` for each cell, ``(K, n)``."""
    out = values.new_empty(len(values), matrices.shape[1])
    for number in range(len(matrices)):
        mine = run == number
        out[mine] = values[mine] @ matrices[number].T
    return out


def _backward(
    pieces: Pieces, number: int, moved: list[tuple[Tensor, Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """How far layers after it can lower and raise the derivative, and the same crudely."""
    shape = pieces.layers[number].low
    low, high, chain = torch.zeros_like(shape), torch.zeros_like(shape), torch.zeros_like(shape)
    for after, (least, most, _) in enumerate(moved, start=number + 1):
        layer = pieces.layers[after]
        matrix = layer.reach[number].transpose(1, 2)
        plus, minus = matrix.clamp_min(0), (-matrix).clamp_min(0)
        high += _by_run(plus, most, layer.run) + _by_run(minus, -least, layer.run)
        low += _by_run(plus, -least, layer.run) + _by_run(minus, most, layer.run)
    if moved:
        chain = moved[0][2] @ pieces.absolute[number + 1]
    return low, high, chain
