"""The least and the most that the attribution of a smooth network moves along directions.

The expansion of ``certificate.md`` for a . g in place of g: what a source at a neuron adds is
weighted with ``|a . U_j|`` and ``|a . J_j|`` in place of the norms of these columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, up
from attribound.bounding.certified.deviation import of_expansions
from attribound.bounding.certified.expanding import expansions
from attribound.bounding.certified.expansion import Expansion, dual_order, row_norms
from attribound.bounding.certified.network import Network
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.quadratic import Form
from attribound.bounding.certified.relu.region import Region
from attribound.bounding.certified.remainder import NeuronEnclosure
from attribound.bounding.certified.taylor import remainders_along, sources
from attribound.bounding.certified.units import in_units

#: Features up to which the second order of all neurons is bounded jointly, by an eigenvalue problem
#: a direction.
_JOINTLY = 64


@dataclass(frozen=True, eq=False)
class _At:
    """A point of the path: its weight and node, its expansion, enclosures in the ball and at x."""

    weight: float
    node: float
    expansion: Expansion
    inside: NeuronEnclosure
    still: NeuronEnclosure


@dataclass(frozen=True, eq=False)
class SmoothDirections:
    """Ends of directions times the change of the attribution of one example.

    Attributes:
        path: of the attribution.
        region: of the perturbations.
        radius: of the plain p-ball around the region, of which the remainder speaks.
        points: expansions on the path.
    """

    path: GradientPath
    region: Region
    radius: float
    points: tuple[_At, ...]

    @classmethod
    def of(
        cls, network: Network, path: GradientPath, target: int, region: Region, widest: int
    ) -> SmoothDirections:
        """Expand the network at the points of the path, in the units of the region."""
        network, path, region = in_units(network, path, region)
        radius = region.epsilon * float(region.scale.max()) * (1 + SLACK)
        points = [*path.points()]
        made = expansions(network, path, target, (radius, region.p), widest)
        pairs = zip(points, made, strict=True)
        every = tuple(_At(weight, node, *own) for (node, weight, _), own in pairs)
        return cls(path, region, radius, every)

    @property
    def whole(self) -> float:
        """Upper value of the Euclidean norm of the change; infinite if it overflowed."""
        made = [(at.expansion, at.inside, at.still) for at in self.points]
        both = of_expansions(self.path, made, (self.radius, self.region.p))
        return min(math.inf if math.isnan(each) else each for each in both)

    @property
    def gradient(self) -> Tensor:
        """The weighted mean gradient at x, ``(1, d)``."""
        return torch.stack([at.weight * at.expansion.gradient for at in self.points]).sum(0)

    def __call__(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Ends along ``directions (n, d)``."""
        scaled = directions * self.path.displacement
        rows = torch.zeros_like(directions)
        rest = torch.zeros(len(directions), dtype=torch.float64)
        for at in self.points:
            share = at.weight * at.node
            rows = rows + share * (scaled @ at.expansion.jacobian.T)
            error = at.expansion.jacobian_error + 4 * SLACK * at.expansion.jacobian_norm
            rest = rest + abs(share) * self.radius * (scaled.abs() @ error[0])
            rest = rest + abs(at.weight) * _along(at.expansion, at.still, scaled)
        rest = rest + self._remainder(scaled)
        if self.path.multiplied:
            rows = rows + directions * self.gradient
            size = sum(abs(at.weight) * at.expansion.gradient.abs() for at in self.points)
            rest = rest + self.region.size(directions * (self._moved + 4 * SLACK * size)[0])
        wide = up(rest)
        return -self.region.support(-rows) - wide, self.region.support(rows) + wide

    def _remainder(self, scaled: Tensor) -> Tensor:
        """Upper values of ``|a . R|`` in the ball: neurons one by one and, if cheap, jointly."""
        each = [abs(at.weight) * _along(at.expansion, at.inside, scaled) for at in self.points]
        apart = up(torch.stack(each).sum(0))
        count, width = scaled.shape
        if width > _JOINTLY:
            return apart
        forms = torch.zeros(count, width, width, dtype=torch.float64)
        mass = rest = torch.zeros(count, dtype=torch.float64)
        for at in self.points:
            own = remainders_along(at.expansion, at.inside, scaled)
            share = abs(at.weight) * at.node**2
            forms, mass = forms + share * own[0], mass + share * own[1]
            rest = rest + abs(at.weight) * own[2]
        pairs = zip(forms, up(mass).tolist(), strict=True)
        largest = [Form(form, size).maximum(self.region.p) for form, size in pairs]
        top = torch.tensor(largest, dtype=torch.float64)
        return torch.minimum(apart, up(self.radius**2 * top + rest))

    @cached_property
    def _moved(self) -> Tensor:
        """The most by which each component of the mean gradient moves, ``(1, d)``."""
        eye = torch.eye(self.path.x.shape[1], dtype=torch.float64)
        total = torch.zeros_like(self.path.x)
        for at in self.points:
            norms = row_norms(at.expansion.jacobian, dual_order(self.region.p))
            linear = at.node * self.radius * (norms + at.expansion.jacobian_error)
            moved = up(linear) + _along(at.expansion, at.inside, eye)
            total = total + abs(at.weight) * moved
        return up(total)


def _along(expansion: Expansion, enclosure: NeuronEnclosure, directions: Tensor) -> Tensor:
    """Upper values of ``|a . R|`` for the remainder R of the gradient and each direction."""
    length = directions.norm(dim=1)
    total = directions.abs() @ expansion.gradient_defect[0]
    for matrix, error, source in sources(expansion, enclosure):
        products = (directions @ matrix).abs() + SLACK * (directions.abs() @ matrix.abs())
        total = total + up(products @ source[0] + length * (source * error).sum())
    return up(total) + TINY
