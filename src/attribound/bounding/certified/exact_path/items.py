"""What each neuron adds to the mean gradient, as a function of how far the input moves it.

On a run of cells with the same row J of derivatives, a neuron adds J times w, the integral over
where it is switched of the derivative by its output. How long it is switched depends on the one
number t = J . delta, and on what neurons before it do, and grows with both: at the ends of pieces
of t stand bounds of w on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, UNIT
from attribound.bounding.certified.exact_path.flips import LayerFlips
from attribound.bounding.certified.exact_path.pieces import LayerPieces, Pieces

_PIECES = 48  # of t
_NEAR = 0.15  # of the radius: where the residual counts as constant


@dataclass(frozen=True, eq=False)
class NeuronItems:
    """Neurons that may switch, N of them: w = slope t + residual.

    Attributes:
        rows: J, ``(N, d)``; ``row_error`` the norm of their errors.
        radius: of t.
        slope: any number; the best by least squares.
        low, high: of the residual.
        constant, growth: its square is at most constant + growth t^2.
        least, most: of w.
    """

    rows: Tensor
    row_error: Tensor
    radius: Tensor
    slope: Tensor
    low: Tensor
    high: Tensor
    constant: Tensor
    growth: Tensor
    least: Tensor
    most: Tensor

    def __len__(self) -> int:
        return len(self.rows)


def items(pieces: Pieces, found: list[LayerFlips]) -> NeuronItems:
    """The items of all layers."""
    parts = [
        _of_layer(pieces, number, layer, flips)
        for number, (layer, flips) in enumerate(zip(pieces.layers, found, strict=True))
    ]
    return NeuronItems(*(torch.cat([getattr(part, name) for part in parts]) for name in _NAMES))


_NAMES = tuple(NeuronItems.__dataclass_fields__)


def _of_layer(pieces: Pieces, number: int, layer: LayerPieces, flips: LayerFlips) -> NeuronItems:
    cell, neuron = flips.can.nonzero(as_tuple=True)
    width = layer.on.shape[1]
    keys, item = (layer.run[cell] * width + neuron).unique(  # type: ignore[no-untyped-call]
        return_inverse=True
    )
    run, who = keys // width, keys % width
    radius = flips.radius[run, who]
    share = torch.linspace(-1, 1, _PIECES + 1, dtype=torch.float64)
    edges = radius.unsqueeze(1) * share
    low, high = _switched(pieces, layer, flips, (cell, neuron), edges[item])
    change = 1 - pieces.slopes[number]
    sign = change * torch.where(layer.on[cell, neuron], -1.0, 1.0).double().unsqueeze(1)
    ends = [
        sign * flips.low[cell, neuron].unsqueeze(1),
        sign * flips.high[cell, neuron].unsqueeze(1),
    ]
    least, most = torch.minimum(*ends), torch.maximum(*ends)
    least = torch.minimum(least * low, least * high)
    most = torch.maximum(most * low, most * high)
    zeros = torch.zeros(len(keys), _PIECES, dtype=torch.float64)
    w_low = zeros.index_add(0, item, least - SLACK * least.abs())
    w_high = zeros.index_add(0, item, most + SLACK * most.abs())
    # Sums of terms with signs: relative to the absolute ones.
    spare = SLACK * zeros.index_add(0, item, torch.maximum(-least, most)) + TINY
    return _fitted(layer, (run, who), edges, w_low - spare, w_high + spare)


def _switched(
    pieces: Pieces,
    layer: LayerPieces,
    flips: LayerFlips,
    where: tuple[Tensor, Tensor],
    edges: Tensor,
) -> tuple[Tensor, Tensor]:
    """Least and largest length on which each neuron is switched in a cell, for each piece of t."""
    cell, _ = where
    start, end = pieces.start[cell].unsqueeze(1), pieces.end[cell].unsqueeze(1)
    at_start = layer.low[where].unsqueeze(1) + start * edges
    at_end = layer.high[where].unsqueeze(1) + end * edges
    # t itself is known up to rounding, which counts as a move of the neurons before.
    size = layer.low[where].abs() + layer.high[where].abs()
    noise = 16 * UNIT * (edges.abs() + size.unsqueeze(1))
    up, down = (each[where].unsqueeze(1) + noise for each in (flips.up, flips.down))
    length = end - start
    longest = _positive(at_start + up, at_end + up, length)[:, 1:]
    shortest = _positive(at_start - down, at_end - down, length)[:, :-1]
    longest = torch.minimum(longest * (1 + SLACK), length)
    shortest = shortest * (1 - SLACK)
    on = layer.on[where].unsqueeze(1)
    low = torch.where(on, length * (1 - SLACK) - longest, shortest).clamp_min(0)
    high = torch.where(on, length * (1 + SLACK) - shortest, longest)
    return low, high


def _positive(first: Tensor, last: Tensor, length: Tensor) -> Tensor:
    """On how much of a cell a linear function with these end values is positive."""
    above, below = torch.maximum(first, last), torch.minimum(first, last)
    share = above / (above - below).clamp_min(TINY)
    return length * torch.where(below > 0, 1.0, torch.where(above <= 0, 0.0, share))


def _fitted(
    layer: LayerPieces, which: tuple[Tensor, Tensor], edges: Tensor, low: Tensor, high: Tensor
) -> NeuronItems:
    """Slopes by least squares, and what they leave."""
    run, who = which
    radius = edges[:, -1]
    middle, value = (edges[:, 1:] + edges[:, :-1]) / 2, (low + high) / 2
    centred = middle - middle.mean(1, keepdim=True)
    slope = (centred * value).sum(1) / (centred**2).sum(1).clamp_min(TINY)
    lines = slope.unsqueeze(1) * edges
    least = low - torch.maximum(lines[:, 1:], lines[:, :-1])
    most = high - torch.minimum(lines[:, 1:], lines[:, :-1])
    spare = SLACK * (lines.abs().amax(1) + low.abs().amax(1) + high.abs().amax(1)) + TINY
    least, most = least - spare.unsqueeze(1), most + spare.unsqueeze(1)
    square = torch.maximum(-least, most) ** 2 * (1 + SLACK)
    nearest = torch.minimum(edges[:, 1:].abs(), edges[:, :-1].abs())
    near = nearest <= _NEAR * radius.unsqueeze(1)
    constant = torch.where(near, square, 0.0).amax(1)
    beyond = (square - constant.unsqueeze(1)).clamp_min(0) / (nearest**2).clamp_min(TINY)
    growth = torch.where(near, 0.0, beyond).amax(1) * (1 + SLACK)
    return NeuronItems(
        layer.rows[run, who],
        layer.row_error[who],
        radius,
        slope,
        least.amin(1),
        most.amax(1),
        constant,
        growth,
        low.amin(1),
        high.amax(1),
    )
