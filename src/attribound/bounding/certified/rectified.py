"""A network of affine stages with ReLUs in between, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.networks.affine import Stage


@dataclass(frozen=True)
class Rectifier:
    """``max(slope * z, z)``: 0 of a ReLU, up to 1; its derivative is 1 above 0, else the slope."""

    slope: float


def slopes_where(on: Tensor, slope: float) -> Tensor:
    """One where a neuron is on, its slope below zero elsewhere.

    In float64: of two numbers ``torch.where`` makes float32, in which 0.2 is not 0.2.
    """
    return torch.where(on, torch.ones((), dtype=torch.float64), slope)


@dataclass(frozen=True, eq=False)
class Rectified:
    """``stages[0], max(slopes[0] z, z), stages[1], ..., stages[-1]``: logits of one example."""

    stages: tuple[Stage, ...]
    slopes: tuple[float, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of every ReLU."""
        return tuple(stage.sizes[-1] for stage in self.stages[:-1])

    def logits(self, x: Tensor) -> Tensor:
        """Of a float64 batch."""
        for stage, slope in zip(self.stages[:-1], self.slopes, strict=True):
            z = stage.value(x)
            x = torch.where(z > 0, z, slope * z)
        return self.stages[-1].value(x)

    def gradients(self, x: Tensor, target: int) -> Tensor:
        """Of the target's logit, ``(batch, d)``."""
        masks = []
        for stage, slope in zip(self.stages[:-1], self.slopes, strict=True):
            z = stage.value(x)
            masks.append(slopes_where(z > 0, slope))
            x = z * masks[-1]
        u = torch.zeros(len(x), self.stages[-1].sizes[-1], dtype=torch.float64)
        u[:, target] = 1.0
        for stage, mask in zip(reversed(self.stages[1:]), reversed(masks), strict=True):
            u = stage.adjoint(u) * mask
        return self.stages[0].adjoint(u)
