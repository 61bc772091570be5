"""A ball of a user's own: l2, with features that can't change."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import attribound as ab


@ab.register("frozen_l2")
@dataclass(frozen=True, eq=False, repr=False)
class FrozenBall(ab.L2Ball):
    """All perturbations of Euclidean norm at most ``epsilon`` that leave the first rows alone.

    Attributes:
        rows: how many rows of the image can't change.
    """

    rows_frozen: int = 1

    @property
    def name(self) -> str:
        """With what is frozen."""
        return f"l2, {self.rows_frozen} rows frozen"

    def scaling(self, x: Tensor) -> Tensor:
        """Zero where nothing may change: all that a ball is asked follows from it."""
        scale = torch.ones_like(x)
        scale[..., : self.rows_frozen, :] = 0
        return scale
