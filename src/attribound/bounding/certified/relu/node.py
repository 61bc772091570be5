"""A part of the region: what is known of some neurons there, and how far g can be from g(x)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.relu.adjoint import adjoints, largest, switching
from attribound.bounding.certified.relu.compact import FREE, STABLE, Compact
from attribound.bounding.certified.relu.farkas import infeasible, without
from attribound.bounding.certified.relu.reach import UpperReach, reach
from attribound.bounding.certified.relu.region import Region


@dataclass(frozen=True, eq=False)
class Items:
    """What switches add to g: each between nothing and all of it.

    Attributes:
        vectors: ``(items, d)``; ``neurons``: whose, ``(items,)``.
        slope, threshold: a switch implies ``slope delta >= threshold``.
    """

    vectors: Tensor
    neurons: Tensor
    slope: Tensor
    threshold: Tensor


@dataclass(frozen=True, eq=False)
class Node:
    """A part of the region with its items.

    Attributes:
        compact: enclosed; ``empty``: no perturbation is in it.
        slope, threshold: what the fixed neurons say: ``slope delta >= threshold``.
    """

    compact: Compact
    items: Items
    slope: Tensor
    threshold: Tensor
    empty: bool

    @property
    def held(self) -> int:
        """Bytes."""
        known = self.compact.jacobian, self.compact.matrix, self.items.vectors, self.items.slope
        return sum(each.nbytes for each in known)

    def alone(self) -> Node:
        """Without what neurons do to each other, of which nothing more is asked."""
        none = self.compact.matrix.new_zeros(0, 0)
        return replace(self, compact=replace(self.compact, matrix=none))


def node_of(compact: Compact, region: Region) -> Node:
    """Enclose everything in the part of the region where the fixed neurons are as they say."""
    for _ in range(len(compact) + 1):
        found = reach(compact, region)
        compact, rows = found.compact, found.rows
        fixed = (compact.state != FREE) & (compact.state != STABLE)
        slope, threshold = rows.slope[fixed], -rows.constant[fixed]
        if bool((rows.value[fixed] < 0).any()) or infeasible(region, slope, threshold):
            return Node(compact, _none(compact), slope, threshold, empty=True)
        free = compact.free.nonzero().flatten()
        can = without(region, (slope, threshold), rows.slope[free], -rows.constant[free])
        compact = compact.marked(free[~can], STABLE)
        certain = (found.certain & compact.free).nonzero().flatten()
        if not len(certain):
            break
        compact = compact.switched(int(certain[0]), region)
    compact = adjoints(compact)
    return Node(compact, items_of(compact, rows), slope, threshold, empty=False)


def _none(compact: Compact) -> Items:
    size = compact.jacobian.shape[1]
    nothing = torch.zeros(0, size, dtype=torch.float64)
    return Items(nothing, torch.zeros(0, dtype=torch.long), nothing, torch.zeros(0).double())


def items_of(compact: Compact, rows: UpperReach) -> Items:
    """The ends of every w that are not zero, times J."""
    ends = switching(compact)
    neurons, sizes = [], []
    for end in (ends.low, ends.high):
        own = (end != 0).nonzero().flatten()
        neurons.append(own)
        sizes.append(end[own])
    who = torch.cat(neurons)
    vectors = torch.cat(sizes).unsqueeze(1) * compact.jacobian[who]
    return Items(vectors, who, rows.slope[who], -rows.constant[who])


def parts(compact: Compact, neuron: int, region: Region) -> tuple[Compact, Compact]:
    """Where a neuron has not switched, and where it has."""
    return compact.kept(neuron), compact.switched(neuron, region)


def ends_along(compact: Compact, directions: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the most of ``directions (k, d)`` times g' - g in an enclosed part."""
    coefficients = directions @ compact.jacobian.T
    middle = directions @ compact.shift
    noise = directions.norm(dim=1) * compact.gradient_noise
    margin = SLACK * (directions.abs() @ compact.shift.abs() + noise) + noise
    return (
        middle - largest(compact, -coefficients) - margin,
        middle + largest(compact, coefficients) + margin,
    )
