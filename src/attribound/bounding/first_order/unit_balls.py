"""What balls of every radius share: the linearised problem in the unit ball of each norm."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from attribound.balls import Enclosure
from attribound.bounding.first_order.entrywise_sum import entrywise_sum
from attribound.bounding.first_order.largest_column import largest_column
from attribound.operators import LinearOperator
from attribound.results import NormEstimate, SpectralEstimate
from attribound.spectral import NormSolver, SpectralSolver


@dataclass(eq=False)
class UnitBalls:
    """Solutions for unit balls, each computed when first asked for and then kept.

    Everything here grows in proportion to the radius, so that one solution serves
    all balls of its norm and units, and one singular value all norms.
    """

    jacobian: LinearOperator
    solver: SpectralSolver
    _norms: dict[tuple[NormSolver, float], NormEstimate] = field(default_factory=dict)
    _scaled: dict[bytes, UnitBalls] = field(default_factory=dict)

    @cached_property
    def spectral(self) -> SpectralEstimate:
        """The largest singular value."""
        return self.solver(self.jacobian)

    @cached_property
    def entrywise_sum(self) -> Tensor:
        """Theorem 2, from the dense Jacobian."""
        with torch.no_grad():
            return entrywise_sum(self.jacobian)

    @cached_property
    def largest_column(self) -> tuple[Tensor, Tensor]:
        """The norm for p = 1 and the vertex where it is attained, from the dense Jacobian."""
        with torch.no_grad():
            return largest_column(self.jacobian)

    def within(self, around: Enclosure) -> UnitBalls:
        """Those of balls with the units of ``around``."""
        if around.scale is None:
            return self
        key = around.scale.cpu().numpy().tobytes()
        if key not in self._scaled:
            self._scaled[key] = UnitBalls(around.scaled(self.jacobian), self.solver)
        return self._scaled[key]

    def norm(self, solver: NormSolver, p: float) -> NormEstimate:
        """The norm for p > 2, bracketed."""
        key = (solver, p)
        if key not in self._norms:
            self._norms[key] = solver(self.jacobian, p)
        return self._norms[key]
