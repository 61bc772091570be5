"""The smooth form of every kinked function that :func:`attribound.smooth` replaces.

Each takes the settings and the arguments of the function it stands for, and
returns None where it leaves the call alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attribound.networks.kinks import is_guard
from attribound.networks.pooling import Window, log_sum_exp_pool, spread

_Replacement = Callable[..., Tensor | None]


@dataclass(frozen=True)
class Smoothing:
    """How kinks are rounded: ``beta`` is the sharpness, large values follow the kinks closely."""

    beta: float
    pooling: bool


def _softplus(x: Tensor, beta: float) -> Tensor:
    return F.softplus(x, beta=beta)


def _relu(s: Smoothing, x: Tensor) -> Tensor:
    return _softplus(x, s.beta)


def _relu6(s: Smoothing, x: Tensor) -> Tensor:
    return _softplus(x, s.beta) - _softplus(x - 6, s.beta)


def _leaky(s: Smoothing, x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return negative_slope * x + (1 - negative_slope) * _softplus(x, s.beta)


def _prelu(s: Smoothing, x: Tensor, weight: Tensor) -> Tensor:
    slope = weight if weight.numel() == 1 or x.dim() < 2 else weight.view(-1, *[1] * (x.dim() - 2))
    return slope * x + (1 - slope) * _softplus(x, s.beta)


def _rrelu(
    s: Smoothing,
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
) -> Tensor | None:
    return None if training else _leaky(s, x, (lower + upper) / 2)


def _threshold(s: Smoothing, x: Tensor, threshold: float, value: float) -> Tensor | None:
    return _softplus(x, s.beta) if threshold == 0 and value == 0 else None


def _clamp(s: Smoothing, x: Tensor, min: Any = None, max: Any = None) -> Tensor | None:
    if not x.is_floating_point() or is_guard(x, min, max):
        return None
    out = x
    if _limits(min):
        out = min + _softplus(x - min, s.beta)
    if _limits(max):
        out = out - _softplus(x - max, s.beta)
    return out


def _limits(end: Any) -> bool:
    return isinstance(end, Tensor) or (end is not None and math.isfinite(end))


def _clamp_max(s: Smoothing, x: Tensor, max: Any) -> Tensor | None:
    return _clamp(s, x, None, max)


def _hardtanh(
    s: Smoothing, x: Tensor, min_val: float = -1.0, max_val: float = 1.0
) -> Tensor | None:
    return _clamp(s, x, min_val, max_val)


def _max_pool(rank: int) -> _Replacement:
    def pool(
        s: Smoothing, x: Tensor, *window: Any, return_indices: bool = False, **named: Any
    ) -> Tensor | None:
        if return_indices or not s.pooling:
            return None
        return log_sum_exp_pool(x, rank, s.beta, Window(*window, **named))

    return pool


def _adaptive_max_pool(rank: int) -> _Replacement:
    def pool(
        s: Smoothing, x: Tensor, output_size: Any, return_indices: bool = False
    ) -> Tensor | None:
        if return_indices or not s.pooling:
            return None
        sizes = x.shape[-rank:]
        wanted = [
            size if out is None else out
            for out, size in zip(spread(output_size, rank), sizes, strict=True)
        ]
        if any(size % out for size, out in zip(sizes, wanted, strict=True)):
            return None  # windows of unequal size: left as a kink, which the bounds name
        kernel = [size // out for size, out in zip(sizes, wanted, strict=True)]
        return log_sum_exp_pool(x, rank, s.beta, Window(kernel))

    return pool


def _values_and_indices(pool: _Replacement) -> Callable[..., Any]:
    """In ATen's form the indices come, too; here they are None, and using them fails."""

    def both(s: Smoothing, x: Tensor, output_size: Any) -> tuple[Tensor, None] | None:
        values = pool(s, x, output_size)
        return None if values is None else (values, None)

    return both


_aten = torch.ops.aten
#: The same functions as graphs of torch.export have them.
_OPERATORS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys([_aten.relu.default, _aten.relu_.default], _relu),
    **dict.fromkeys([_aten.relu6.default, _aten.relu6_.default], _relu6),
    **dict.fromkeys([_aten.leaky_relu.default, _aten.leaky_relu_.default], _leaky),
    _aten.prelu.default: _prelu,
    **dict.fromkeys([_aten.rrelu.default, _aten.rrelu_.default], _rrelu),
    **dict.fromkeys([_aten.threshold.default, _aten.threshold_.default], _threshold),
    **dict.fromkeys([_aten.hardtanh.default, _aten.hardtanh_.default], _hardtanh),
    **dict.fromkeys([_aten.clamp.default, _aten.clamp_.default, _aten.clamp.Tensor], _clamp),
    **dict.fromkeys([_aten.clamp_min.default, _aten.clamp_min_.default], _clamp),
    **dict.fromkeys([_aten.clamp_max.default, _aten.clamp_max_.default], _clamp_max),
    _aten.max_pool1d.default: _max_pool(1),
    _aten.max_pool2d.default: _max_pool(2),
    _aten.max_pool3d.default: _max_pool(3),
    _aten.adaptive_max_pool1d.default: _values_and_indices(_adaptive_max_pool(1)),
    _aten.adaptive_max_pool2d.default: _values_and_indices(_adaptive_max_pool(2)),
    _aten.adaptive_max_pool3d.default: _values_and_indices(_adaptive_max_pool(3)),
}

REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    **_OPERATORS,
    **dict.fromkeys([F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_], _relu),
    F.relu6: _relu6,
    **dict.fromkeys([F.leaky_relu, F.leaky_relu_], _leaky),
    **dict.fromkeys([F.prelu, torch.prelu, Tensor.prelu], _prelu),
    **dict.fromkeys([F.rrelu, F.rrelu_], _rrelu),
    **dict.fromkeys([F.threshold, torch.threshold, torch.threshold_], _threshold),
    **dict.fromkeys([F.hardtanh, F.hardtanh_], _hardtanh),
    **dict.fromkeys(
        [torch.clamp, torch.clamp_, torch.clip, torch.clip_, Tensor.clamp, Tensor.clamp_], _clamp
    ),
    **dict.fromkeys([Tensor.clip, Tensor.clip_], _clamp),
    **dict.fromkeys(
        [torch.clamp_min, torch.clamp_min_, Tensor.clamp_min, Tensor.clamp_min_], _clamp
    ),
    **dict.fromkeys(
        [torch.clamp_max, torch.clamp_max_, Tensor.clamp_max, Tensor.clamp_max_], _clamp_max
    ),
    F.max_pool1d: _max_pool(1),
    F.max_pool2d: _max_pool(2),
    F.max_pool3d: _max_pool(3),
    torch.max_pool1d: _max_pool(1),
    torch.max_pool2d: _max_pool(2),
    torch.max_pool3d: _max_pool(3),
    F.adaptive_max_pool1d: _adaptive_max_pool(1),
    F.adaptive_max_pool2d: _adaptive_max_pool(2),
    F.adaptive_max_pool3d: _adaptive_max_pool(3),
}
