"""How far rows can go in a ball: Euclidean or a cube, in units of features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.balls import Enclosure
from attribound.basics.rounding import SLACK


@dataclass(frozen=True, eq=False)
class PathBall:
    """``scale * delta`` with ``|delta|_p <= epsilon``; p is 2 or infinity, scale ``(d,)``."""

    epsilon: float
    p: float
    scale: Tensor

    @classmethod
    def around(cls, enclosure: Enclosure, row: int, size: int) -> PathBall:
        """Of one example: other balls get the Euclidean one around them."""
        scale = torch.ones(size, dtype=torch.float64)
        if enclosure.scale is not None:
            scale = enclosure.scale[row].detach().flatten().to("cpu", torch.float64)
        p, epsilon = enclosure.p, enclosure.epsilon
        if p not in (2, math.inf):
            epsilon *= size ** max(0.0, 1 / 2 - 1 / p) * (1 + SLACK)
            p = 2.0
        return cls(float(epsilon), float(p), scale)

    def evaluated(self, x: Tensor, unit: float) -> PathBall:
        """Wide enough for x + delta, ``x (d,)``, as it is computed in numbers of this unit."""
        lost = unit * (x.abs() + self.epsilon * self.scale)
        units = torch.where(self.scale > 0, lost / self.scale, 0.0)  # what is frozen stays x
        room = torch.linalg.vector_norm(units, ord=self.p).item()
        return replace(self, epsilon=(self.epsilon * (1 + 32 * unit) + room) * (1 + SLACK))

    @property
    def furthest(self) -> float:
        """Of one feature."""
        return self.epsilon * float(self.scale.max())

    def of(self, rows: Tensor) -> Tensor:
        """The largest ``row . delta`` for rows ``(..., d)``."""
        order = 2 if self.p == 2 else 1
        length: Tensor = torch.linalg.vector_norm(rows * self.scale, ord=order, dim=-1)
        return self.epsilon * length

    def times(self, sizes: Tensor) -> float:
        """The largest ``|delta * sizes|_2`` for sizes ``(d,)`` that are not negative."""
        moved = self.scale * sizes
        return self.epsilon * float(moved.max() if self.p == 2 else moved.norm())
