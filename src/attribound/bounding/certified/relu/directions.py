"""The least and the most that an attribution moves along given directions.

For questions about single features and pairs of them: one tree serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.deviation import Effort, Moving
from attribound.bounding.certified.relu.node import Node, ends_along
from attribound.bounding.certified.relu.region import Region
from attribound.bounding.certified.relu.tree import Tree


def along(
    network: Rectified,
    path: GradientPath,
    target: int,
    region: Region,
    effort: Effort,
    directions: Tensor,
) -> tuple[Tensor, Tensor]:
    """Ends of ``directions (k, d)`` times the change of the attribution, for every perturbation.

    The change is from what is computed at x in float64; masks are those of the network as it is
    evaluated, as everywhere here.
    """
    return Directions(Moving(network, path, target, region, effort))(directions)


@dataclass(eq=False)
class Directions:
    """The same for one block of directions after the other, with one tree."""

    moving: Moving

    def __call__(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Ends along ``directions (k, d)``."""
        path = self.moving.path
        low, high = self._gradient(directions * path.displacement)
        if not path.multiplied:
            return low, high
        moved = self.moving.region.size(directions * self._sizes)  # of the factor x - baseline
        return low - moved, high + moved

    @cached_property
    def _sizes(self) -> Tensor:
        """The most that each component of the mean gradient can be, ``(d,)``."""
        path = self.moving.path
        features = torch.eye(path.x.shape[1], dtype=torch.float64)
        low, high = self._gradient(features)
        mean = torch.zeros_like(path.x)
        for _, weight, point in path.points():
            mean = mean + weight * self.moving.network.gradients(point, self.moving.target)
        return mean[0].abs() * (1 + SLACK) + torch.maximum(high, -low)

    @cached_property
    def _tree(self) -> Tree:
        return self.moving.grown(self.moving.swept(0))[0]

    @cached_property
    def _nodes(self) -> list[Node]:
        return [node for node, _ in self.moving.along_path()]

    def _gradient(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Of the weighted sum of gradients alone."""
        weights = self.moving.path.weights
        if len(weights) == 1:
            return self._tree.ends(weights[0] * directions)
        low = high = torch.zeros(len(directions), dtype=torch.float64)
        for weight, node in zip(weights, self._nodes, strict=True):
            least, most = ends_along(node.compact, weight * directions)
            low, high = low + least, high + most
        margin = SLACK * torch.maximum(high, -low)
        return low - margin, high + margin
