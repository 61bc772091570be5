"""Where a point of the path may move: a scaled p-ball cut by the range of values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.balls import Ball, enclosure
from attribound.basics.rounding import up
from attribound.bounding.certified.expansion import dual_order

_ROWS = 4096  # of a wide matrix, handled together
_INSIDE = 1 - 4e-6  # of a region, so that it is in the ball that was asked for


@dataclass(frozen=True, eq=False)
class Region:
    """All delta with ``|delta / scale|_p <= epsilon`` and ``low <= delta <= high``, one example.

    Attributes:
        p, epsilon: order and radius.
        scale: units of the features, ``(d,)``; 0 for frozen ones.
        low, high: the least and the most change of each feature, ``(d,)``.
    """

    p: float
    epsilon: float
    scale: Tensor
    low: Tensor
    high: Tensor

    def shrunk(self, factor: float) -> Region:
        """All perturbations times a factor from 0 to 1."""
        return Region(
            self.p, factor * self.epsilon, self.scale, factor * self.low, factor * self.high
        )

    @property
    def largest(self) -> Tensor:
        """The most by which each feature can change, ``(d,)``."""
        return torch.maximum(self.high, -self.low)

    def possible(self, rows: Tensor) -> Tensor:
        """``rows`` without what only works against limits: no smaller a product with any delta.

        A feature at the end of its range moves in one direction only; a coefficient that wants
        the other is best left at zero.
        """
        kept = torch.where(self.low == 0, rows.clamp_min(0), rows)
        return torch.where(self.high == 0, kept.clamp_max(0), kept)

    def support(self, rows: Tensor) -> Tensor:
        """The largest product of each row ``(n, d)`` with a perturbation, from above, ``(n,)``."""
        if len(rows) > _ROWS:
            return torch.cat([self.support(some) for some in torch.split(rows, _ROWS)])
        limits = torch.maximum(rows * self.high, rows * self.low).sum(1)
        if self.p == math.inf:
            return up(limits)
        units = self.possible(rows) * self.scale
        length = torch.linalg.vector_norm(units, ord=dual_order(self.p), dim=1)
        return up(torch.minimum(limits, self.epsilon * length))

    def size(self, rows: Tensor) -> Tensor:
        """The largest ``|row| . |delta|``, from above, ``(n,)``."""
        if len(rows) > _ROWS:
            return torch.cat([self.size(some) for some in torch.split(rows, _ROWS)])
        limits = rows.abs() @ self.largest
        if self.p == math.inf:
            return up(limits)
        length = torch.linalg.vector_norm(rows * self.scale, ord=dual_order(self.p), dim=1)
        return up(torch.minimum(limits, self.epsilon * length))

    def furthest(self, rows: Tensor) -> Tensor:
        """Perturbations that go far along rows ``(n, d)``, inside the ball that was asked for."""
        if self.p == math.inf:
            return self.inside(torch.where(rows > 0, self.high, self.low))
        units = self.possible(rows) * self.scale
        length = torch.linalg.vector_norm(units, ord=self.p, dim=1, keepdim=True)
        return self.inside(self.scale * units * (self.epsilon / length.clamp_min(1e-300)))

    def inside(self, deltas: Tensor) -> Tensor:
        """Perturbations ``(n, d)`` shortened and clipped until they are inside."""
        clipped = torch.minimum(torch.maximum(deltas, self.low), self.high)
        if self.p == math.inf:  # the limits have roundings of x in them, which the radius has not
            far = self.epsilon * self.scale
            return _INSIDE * torch.minimum(torch.maximum(clipped, -far), far)
        units = torch.where(self.scale > 0, clipped / self.scale.clamp_min(1e-300), 0.0)
        length = torch.linalg.vector_norm(units, ord=self.p, dim=1, keepdim=True)
        inside: Tensor = (
            _INSIDE * clipped * (self.epsilon / length.clamp_min(1e-300)).clamp_max(1.0)
        )
        return inside

    def stretched(self, factors: Tensor) -> float:
        """The largest Euclidean norm of ``factors * delta`` for factors >= 0, from above."""
        every = (self.largest * factors).norm().item()
        if self.p <= 2:
            every = min(every, self.epsilon * (self.scale * factors).max().item())
        return up(torch.tensor(every, dtype=torch.float64)).item()


def regions(ball: Ball, x: Tensor) -> list[Region]:
    """The region of each example, a few roundings wider than the ball.

    Attacks compute in the dtype of x: their perturbations may be outside by that much.
    """
    around = enclosure(ball, x)
    exact = x.detach().to("cpu", torch.float64)
    wider = 1 + 16 * torch.finfo(x.dtype).eps
    low, high = (end.flatten(1) for end in _limits(ball, x, exact))
    scale = torch.ones_like(exact) if around.scale is None else around.scale.cpu().double()
    return [
        Region(around.p, around.epsilon * wider, unit, least * wider, most * wider)
        for unit, least, most in zip(scale.flatten(1), low, high, strict=True)
    ]


def _limits(ball: Ball, x: Tensor, exact: Tensor) -> tuple[Tensor, Tensor]:
    """Limits, not closer than in exact arithmetic."""
    low, high = (end.to("cpu", torch.float64) for end in ball.limits(x))
    rounding = 4 * torch.finfo(x.dtype).eps * (exact.abs() + ball.epsilon)
    return (
        torch.where(low == 0, low, low - rounding),
        torch.where(high == 0, high, high + rounding),
    )
