"""How alike two maps are, differentiable: for objectives, where ``metrics`` is for reports."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.tensors import dot


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine between each example of ``a`` and of ``b``; 0 where one is zero, never NaN."""
    return dot(_direction(a), _direction(b))


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of the entries of each example; 0 where one is constant, never NaN."""
    return cosine(_centred(a), _centred(b))


def _centred(a: Tensor) -> Tensor:
    flat = a.flatten(1)
    return flat - flat.mean(1, keepdim=True)


def _direction(a: Tensor) -> Tensor:
    flat = a.flatten(1)
    # A constant factor, by which directions do not change: without it small maps underflow.
    peak = flat.detach().abs().amax(1, keepdim=True)
    scaled = flat / torch.where(peak > 0, peak, torch.ones_like(peak))
    square = (scaled**2).sum(1, keepdim=True)
    # A norm has no derivative at zero, so that a zero map must not meet one.
    return scaled * torch.where(square > 0, square, torch.ones_like(square)).rsqrt()
