"""Branch and bound: one neuron after the other is fixed, the largest bound first.

The leaves cover the region, so that the largest bound of a leaf holds at any time, and anything
that is bounded in every leaf (a feature, a difference of two) is bounded in the region.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.bounding.certified.relu.compact import Compact
from attribound.bounding.certified.relu.farkas import nearest
from attribound.bounding.certified.relu.node import Node, ends_along, node_of, parts
from attribound.bounding.certified.relu.region import Region

#: Of a bound over what is attained: nothing is left to gain.
CLOSE = 1.01
EXACT = 1 + 1e-6
_BEYOND = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # of how far a region goes beyond thresholds


@dataclass(frozen=True)
class Limits:
    """Where to stop: after so many nodes or seconds, or at a value that is small enough."""

    nodes: int
    seconds: float
    goal: float = 0.0


@dataclass(eq=False)
class Tree:
    """Nodes that cover the region of a network, and what is known of them.

    Attributes:
        bound: an upper value of what is asked in a node.
        attain: what some perturbations ``(n, d)`` attain, the largest.
        leaves: heap of (- bound, number, node).
        attained: the most that was found; nodes: how many were bounded.
    """

    region: Region
    bound: Callable[[Node], float]
    attain: Callable[[Tensor], float]
    leaves: list[tuple[float, int, Node]] = field(default_factory=list)
    attained: float = 0.0
    nodes: int = 0
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, compact: Compact, most: float) -> None:
        """Bound a node, not above ``most``, unless no perturbation is in it."""
        self.nodes += 1
        node = node_of(compact, self.region)
        if not node.empty:
            value = min(self.bound(node), most)
            heapq.heappush(self.leaves, (-value, next(self._numbers), node))

    @property
    def value(self) -> float:
        """An upper value in the whole region."""
        return -self.leaves[0][0] if self.leaves else 0.0

    def tighten(self, value: float) -> None:
        """A better bound of the first leaf, from elsewhere."""
        old, number, node = self.leaves[0]
        heapq.heapreplace(self.leaves, (max(old, -value), number, node))

    def grow(self, limits: Limits) -> None:
        """Branch until a limit, or until the leaf with the largest bound has no items."""
        end = time.monotonic() + limits.seconds
        while self.leaves and self.nodes < limits.nodes and time.monotonic() < end:
            node = self.leaves[0][2]
            enough = max(CLOSE * self.attained, limits.goal)
            if self.value <= enough:
                return
            if not len(node.items.neurons):
                self._try(node)
                return
            neuron = _heaviest(node)
            value = -heapq.heappop(self.leaves)[0]
            for part in parts(node.compact, neuron, self.region):
                self.add(part, value)
            self._try(node, neuron)

    def ends(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the most of ``directions (k, d)`` times g(x + delta) - g(x)."""
        each = [ends_along(node.compact, directions) for _, _, node in self.leaves]
        lows, highs = zip(*each, strict=True)
        return torch.stack(lows).amin(0), torch.stack(highs).amax(0)

    def _try(self, node: Node, neuron: int | None = None) -> None:
        """Look at perturbations that the fixed neurons and this one ask for."""
        own = node.items.neurons == -1 if neuron is None else node.items.neurons == neuron
        slope = torch.cat([node.slope, node.items.slope[own][:1]])
        threshold = torch.cat([node.threshold, node.items.threshold[own][:1]])
        if not len(slope):
            return
        near = nearest(self.region, slope, threshold)
        along = torch.nn.functional.normalize(slope, dim=1).sum(0)  # rows have units of their own
        points = torch.stack([near, 1.001 * near, along])
        points = torch.cat([self.region.inside(points[:2]), self.region.furthest(points)])
        if neuron is None:  # the last node: thresholds are lowered by rounding, so go beyond them
            room = (self.region.support(slope) - threshold).mean()
            beyond = [nearest(self.region, slope, threshold + share * room) for share in _BEYOND]
            points = torch.cat([points, self.region.inside(torch.stack(beyond))])
        self.attained = max(self.attained, self.attain(points))


def _heaviest(node: Node) -> int:
    """The neuron with the largest item."""
    return int(node.items.neurons[node.items.vectors.norm(dim=1).argmax()])
