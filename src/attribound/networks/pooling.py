"""Log-sum-exp pooling: max-pooling without its jumps."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Size = int | Sequence[int]


@dataclass(frozen=True)
class Window:
    """The window of a pooling, as PyTorch describes it."""

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    dilation: Size = 1
    ceil_mode: bool = False


class LogSumExpPool(nn.Module):
    """Smooth max-pooling: (1/beta) log of the sum of exp(beta x) over each window.

    Between the maximum and the maximum plus log(window size) / beta.
    """

    def __init__(self, pool: nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d, beta: float) -> None:
        super().__init__()
        self.rank = {nn.MaxPool1d: 1, nn.MaxPool2d: 2, nn.MaxPool3d: 3}[type(pool)]
        self.window = Window(
            pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode
        )
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Pool the last dimensions of ``x``."""
        return log_sum_exp_pool(x, self.rank, self.beta, self.window)

    def with_beta(self, beta: float) -> LogSumExpPool:
        """The same pooling with another sharpness."""
        other = copy.copy(self)
        other.beta = beta
        return other

    def extra_repr(self) -> str:
        """The window and the sharpness."""
        window = self.window
        return f"kernel_size={window.kernel_size}, stride={window.stride}, beta={self.beta}"


def log_sum_exp_pool(x: Tensor, rank: int, beta: float, window: Window) -> Tensor:
    """The smooth form of ``max_pool{rank}d`` over the last ``rank`` dimensions of ``x``."""
    kernel, pad, gap = (
        spread(size, rank) for size in (window.kernel_size, window.padding, window.dilation)
    )
    step = spread(window.stride, rank) if window.stride else kernel
    outputs, pads = [], []
    for axis in range(rank):
        size = x.shape[axis - rank]
        span = gap[axis] * (kernel[axis] - 1) + 1
        room = size + 2 * pad[axis] - span
        count = (math.ceil if window.ceil_mode else math.floor)(room / step[axis]) + 1
        if window.ceil_mode and (count - 1) * step[axis] >= size + pad[axis]:
            count -= 1  # PyTorch's rule: the last window starts inside the input.
        outputs.append(count)
        missing = (count - 1) * step[axis] + span - size - pad[axis]
        pads.append((pad[axis], max(missing, 0)))
    if any(itertools.chain(*pads)):
        x = F.pad(x, [side for both in reversed(pads) for side in both], value=-math.inf)
    windows = []
    for offset in itertools.product(*map(range, kernel)):
        slices = [
            slice(o * g, o * g + (n - 1) * s + 1, s)
            for o, g, n, s in zip(offset, gap, outputs, step, strict=True)
        ]
        where: tuple[Any, ...] = (Ellipsis, *slices)
        windows.append(x[where])
    return torch.logsumexp(beta * torch.stack(windows), 0) / beta


def spread(size: Size, rank: int) -> list[int]:
    """A size per dimension."""
    if isinstance(size, int):
        return [size] * rank
    return list(size) * rank if len(size) == 1 else list(size)
