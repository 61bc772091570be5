"""Softplus and its slope, kept away from where processors are slow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Below exp(-29) the cubes inside PyTorch's log1p are denormal in float32: ten times slower.
_FAR = -25.0


def softplus_and_slope(
    z: Tensor, beta: float, threshold: float, *, owned: bool = False
) -> tuple[Tensor, Tensor]:
    """``softplus(z)`` as PyTorch gives it, and ``sigmoid(beta * z)``.

    In float32 on a CPU softplus is nowhere below exp(-25) / beta and its slope nowhere below
    exp(-25), 1.4e-11: a thousandth of what rounding does to activations and slopes of size 1.
    What is smaller makes these functions, and products with it, up to ten times slower.

    Args:
        z: any shape.
        beta: the sharpness.
        threshold: beyond which PyTorch's function is z.
        owned: the value may be written over ``z``.
    """
    if z.dtype != torch.float32 or z.device.type != "cpu":
        return F.softplus(z, beta, threshold), torch.sigmoid(beta * z)
    slope = (beta * z).clamp_min_(_FAR).sigmoid_()
    near = z.clamp_min_(_FAR / beta) if owned else z.clamp_min(_FAR / beta)
    return torch.ops.aten.softplus.out(near, beta, threshold, out=near), slope
