"""Softplus, sigmoid and tanh as one family: derivatives, their ranges, their errors.

All three are ``scale * phi(rate * z)`` up to a constant, with phi the integral of the
logistic function p (softplus) or p itself (sigmoid, tanh). Derivatives of p:

    p' = p (1 - p)              largest at 0
    p'' = p' (1 - 2 p)          extreme at +-ln(2 + sqrt 3)
    p''' = p' (1 - 6 p')        extreme at 0 and +-ln(5 + 2 sqrt 6)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

#: Absolute error of p and its derivatives, and relative of softplus: 32 roundings. The
#: exponential and logarithm of the C library or SLEEF are off by one or two.
EVALUATION = 2.0**-48
_EXTREMES: dict[int, tuple[float, ...]] = {
    0: (),
    1: (0.0,),
    2: (-math.log(2 + math.sqrt(3)), math.log(2 + math.sqrt(3))),
    3: (-math.log(5 + 2 * math.sqrt(6)), 0.0, math.log(5 + 2 * math.sqrt(6))),
}
#: Where an extreme point may lie, its own rounding included.
_NEAR = 1e-12


def logistic(order: int, t: Tensor) -> Tensor:
    """The derivative of that order of p at ``t``; order -1 is its integral, log(1 + exp t)."""
    if order == -1:
        return t.clamp_min(0) + torch.log1p(torch.exp(-t.abs()))
    p = torch.sigmoid(t)
    if order == 0:
        return p
    first = p * torch.sigmoid(-t)  # not 1 - p, which loses its digits
    if order == 1:
        return first
    return first * (1 - 2 * p) if order == 2 else first * (1 - 6 * first)


def logistic_range(order: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Outward ends of what the derivative of order 0 to 3 of p takes on ``[low, high]``."""
    ends = torch.stack([logistic(order, low), logistic(order, high)])
    least, most = ends.amin(0), ends.amax(0)
    for point in _EXTREMES[order]:
        there = logistic(order, torch.tensor(point, dtype=low.dtype))
        inside = (low <= point + _NEAR) & (high >= point - _NEAR)
        least = torch.where(inside, torch.minimum(least, there), least)
        most = torch.where(inside, torch.maximum(most, there), most)
    return least - EVALUATION, most + EVALUATION


@dataclass(frozen=True)
class SmoothActivation:
    """``scale * phi(rate * z) + offset`` with phi the derivative of order ``order`` of p.

    Attributes:
        threshold: PyTorch's softplus is the identity where rate * z is above this.
    """

    order: int
    scale: float
    rate: float
    offset: float = 0.0
    threshold: float = math.inf

    @classmethod
    def softplus(cls, beta: float, threshold: float) -> SmoothActivation:
        """(1 / beta) log(1 + exp(beta z))."""
        return cls(-1, 1 / beta, beta, threshold=threshold)

    @classmethod
    def sigmoid(cls) -> SmoothActivation:
        """The logistic function."""
        return cls(0, 1.0, 1.0)

    @classmethod
    def tanh(cls) -> SmoothActivation:
        """2 p(2 z) - 1."""
        return cls(0, 2.0, 2.0, -1.0)

    def size(self, order: int) -> float:
        """The factor of the derivative of that order: those of p are smaller than one."""
        return float(self.scale * self.rate**order)

    def derivative(self, order: int, z: Tensor) -> Tensor:
        """The derivative of that order, 0 to 2, at ``z``."""
        value = self.size(order) * logistic(self.order + order, self.rate * z)
        return value + self.offset if order == 0 else value

    def error(self, order: int, z: Tensor) -> Tensor:
        """How far :meth:`derivative` can be from the exact value at ``z``."""
        ones = torch.ones_like(z)
        # Rounding rate * z moves the value by |t p'(t)| < 1 roundings; softplus by |t|.
        reach = 1 + (self.rate * z).abs() if self.order + order == -1 else ones
        return 2 * EVALUATION * (self.size(order) * reach + abs(self.offset))

    def switch(self, order: int, high: Tensor) -> Tensor:
        """How far PyTorch's softplus (order 0) or its slope (1) is from the smooth one.

        Zero unless ``high``, the largest argument, can be above the threshold: there
        log(1 + exp(-t)) / beta and 1 - p(t) are at most exp(-threshold), and differ
        between the branches. Both the value and the slope may be switched or not.
        """
        jump = self.size(order) * math.exp(min(-self.threshold, 700.0)) * (1 + 1e-9)
        above = self.rate * high >= self.threshold * (1 - 1e-9) - 1e-9
        return torch.where(above, torch.full_like(high, jump), torch.zeros_like(high))
