"""Linear pieces: what they make of a point, of a tangent and of a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attribound.networks.structured.layout import room_like

_aten = torch.ops.aten
#: Up to as many channels of the input a matrix product beats PyTorch's adjoint convolution.
_FEW = 4


@dataclass(frozen=True, eq=False)
class LinearAt:
    """A linear piece for inputs of one shape.

    Attributes:
        push: a tangent through it.
        pull: a gradient back through it.
        fresh: ``push`` makes a new tensor, which nobody else holds.
        back: ``pull`` makes a new one, too; None: it gives what it got, in another shape.
    """

    push: Callable[[Tensor], Tensor]
    pull: Callable[[Tensor], Tensor]
    fresh: bool = True
    back: bool | None = True


class LinearPiece(ABC):
    """An affine map of one input, examples apart; its weights are read whenever it is used."""

    @abstractmethod
    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        """The map at ``x``, and the linear map that it is but for a constant."""


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Weight and bias of a convolution or a linear layer."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class ConvolutionPiece(LinearPiece):
    """A convolution over one to three dimensions."""

    weights: Callable[[], LayerWeights]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        if x.dim() != len(self.stride) + 2:
            raise ValueError("no batch")
        made = self.weights()
        weight, shape = made.weight, x.shape
        geometry = (self.stride, self.padding, self.dilation, False, [0] * len(self.stride))

        def push(t: Tensor, bias: Tensor | None = None) -> Tensor:
            out: Tensor = _aten.convolution(t, weight, bias, *geometry, self.groups)
            return out

        def pull(g: Tensor) -> Tensor:
            room = room_like(torch.Size((len(g), *shape[1:])), g)
            mask = [True, False, False]
            out: Tensor = _aten.convolution_backward(
                g, room, weight, None, *geometry, self.groups, mask
            )[0]
            return out

        few = x.dim() == 4 and shape[1] <= _FEW and self.groups == 1
        scatter = few and x.device.type == "cpu"
        return push(x, made.bias), LinearAt(
            push, (lambda g: self._scattered(g, weight, shape)) if scatter else pull
        )

    def _scattered(self, g: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
        """The adjoint as one matrix product, whose rows are added up where they belong."""
        channels, height, width = shape[1:]
        rows, columns = g.shape[2:]
        (up, left), (down, across), (far, wide) = self.padding, self.stride, self.dilation
        outputs, _, high, broad = weight.shape
        flat = g.permute(1, 0, 2, 3).reshape(outputs, -1)
        parts = weight.reshape(outputs, -1).T @ flat
        parts = parts.view(channels, high, broad, len(g), rows, columns)
        # Room for windows that end beyond the input and its padding, too.
        room = g.new_zeros(channels, len(g), height + 2 * up, width + 2 * left)
        for i in range(high):
            for j in range(broad):
                to = slice(i * far, i * far + down * (rows - 1) + 1, down)
                at = slice(j * wide, j * wide + across * (columns - 1) + 1, across)
                room[:, :, to, at] += parts[:, i, j]
        inside = room[:, :, up : up + height, left : left + width]
        return inside.transpose(0, 1).contiguous()


@dataclass(frozen=True, eq=False)
class DensePiece(LinearPiece):
    """A linear layer on the last dimension; ``normed`` with a batch norm folded in."""

    weights: Callable[[], LayerWeights]
    normed: bool = False

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        if self.normed and x.dim() != 2:
            raise ValueError("the channels of the batch norm are not those of the layer")
        made = self.weights()
        weight = made.weight
        return F.linear(x, weight, made.bias), LinearAt(
            lambda t: F.linear(t, weight), lambda g: g @ weight
        )


@dataclass(frozen=True, eq=False)
class Scaling(LinearPiece):
    """``scale * x + shift``, both of a shape that does not change that of an example."""

    constants: Callable[[Tensor], tuple[Tensor | float, Tensor | float]]

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        scale, shift = self.constants(x)
        for each in (scale, shift):
            if isinstance(each, Tensor) and each.dim() == x.dim() and len(each) != 1:
                raise ValueError("constants that differ between examples")
        out = x * scale + shift
        if out.shape != x.shape or out.dtype != x.dtype:
            raise ValueError("the constants change the shape")
        return out, LinearAt(lambda t: t * scale, lambda g: g * scale)


@dataclass(frozen=True, eq=False)
class AveragePool(LinearPiece):
    """Means over windows of one or two dimensions; ``settings`` as PyTorch's backward has them."""

    settings: tuple[Any, ...]
    lines: bool = False

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        shape = x.unsqueeze(-2).shape if self.lines else x.shape

        def push(t: Tensor) -> Tensor:
            out: Tensor = _aten.avg_pool2d(t.unsqueeze(-2) if self.lines else t, *self.settings)
            return out.squeeze(-2) if self.lines else out

        def pull(g: Tensor) -> Tensor:
            g = g.unsqueeze(-2) if self.lines else g
            room = room_like(torch.Size((len(g), *shape[1:])), g)
            out: Tensor = _aten.avg_pool2d_backward(g, room, *self.settings)
            return out.squeeze(-2) if self.lines else out

        return push(x), LinearAt(push, pull)


@dataclass(frozen=True, eq=False)
class MeanPiece(LinearPiece):
    """The mean over some dimensions, not the first."""

    dims: tuple[int, ...]
    keep: bool

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        dims = sorted(d % x.dim() for d in self.dims)
        if 0 in dims:
            raise ValueError("a mean over examples")
        shape = x.shape
        count = 1
        for dim in dims:
            count *= shape[dim]

        def pull(g: Tensor) -> Tensor:
            for dim in () if self.keep else dims:
                g = g.unsqueeze(dim)
            return (g / count).expand(len(g), *shape[1:])

        return x.mean(dims, self.keep), LinearAt(
            lambda t: t.mean(dims, self.keep), pull, back=False
        )


@dataclass(frozen=True, eq=False)
class AdaptivePool(LinearPiece):
    """Means over as many windows as there are to be outputs, in two dimensions."""

    size: Callable[[Tensor], tuple[int, int]]

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        size, shape = self.size(x), x.shape

        def push(t: Tensor) -> Tensor:
            out: Tensor = _aten._adaptive_avg_pool2d(t, size)
            return out

        def pull(g: Tensor) -> Tensor:
            room = room_like(torch.Size((len(g), *shape[1:])), g)
            out: Tensor = _aten._adaptive_avg_pool2d_backward(g, room)
            return out

        return push(x), LinearAt(push, pull)


@dataclass(frozen=True, eq=False)
class ReshapePiece(LinearPiece):
    """The numbers of each example in another shape, in the order of rows."""

    shape: Callable[[Tensor], tuple[int, ...]]

    def at(self, x: Tensor) -> tuple[Tensor, LinearAt]:
        out = x.reshape(len(x), *self.shape(x))
        before, after = x.shape[1:], out.shape[1:]
        return out, LinearAt(
            lambda t: t.reshape(len(t), *after),
            lambda g: g.reshape(len(g), *before),
            fresh=False,
            back=None,
        )
