"""Weights as they are now, batch norms folded into the convolution or linear layer before them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from attribound.networks.structured.layout import laid_out
from attribound.networks.structured.linear import LayerWeights


def scale_and_shift(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    """What a batch norm in eval mode multiplies each channel with, and adds."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    scale = torch.rsqrt(variance + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight
    shift = -mean * scale
    return scale.detach(), (shift if norm.bias is None else shift + norm.bias).detach()


class Folded:
    """Weights of a layer with the batch norm after it; made anew when any number has changed.

    What they were made of is kept beside them and compared each time: tensors can be
    written to in ways that their version counters do not see.
    """

    def __init__(self, layer: Callable[[], LayerWeights], norm: _BatchNorm) -> None:
        self._layer, self._norm = layer, norm
        self._sources: list[Tensor] = []
        self._made: LayerWeights | None = None

    def __call__(self) -> LayerWeights:
        """The folded weights of the layer as it is now."""
        layer, norm = self._layer(), self._norm
        named = [layer.weight, layer.bias, norm.weight, norm.bias]
        named += [norm.running_mean, norm.running_var]
        tensors = [tensor.detach() for tensor in named if tensor is not None]
        if self._made is None or not _equal(tensors, self._sources):
            self._sources = [tensor.clone() for tensor in tensors]
            self._made = _fold(layer, norm)
        return self._made


def _fold(layer: LayerWeights, norm: _BatchNorm) -> LayerWeights:
    scale, shift = scale_and_shift(norm)
    weight = layer.weight.detach() * scale.view(-1, *[1] * (layer.weight.dim() - 1))
    bias = shift if layer.bias is None else torch.addcmul(shift, layer.bias.detach(), scale)
    return LayerWeights(laid_out(weight), bias)


def _equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)
        for a, b in zip(some, others, strict=True)
    )
