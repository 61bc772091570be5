"""The least and the most that an attribution moves along given directions.

For questions about single features and pairs of them: one tree serves them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.deviation import Effort, Moving
from attribound.bounding.certified.relu.node import ends_along, node_of
from attribound.bounding.certified.relu.region import Region


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
    moving = Moving(network, path, target, region, effort)
    scaled = directions * path.displacement
    if not path.multiplied:
        return _gradient(moving, scaled)
    features = torch.eye(path.x.shape[1], dtype=torch.float64)
    low, high = _gradient(moving, torch.cat([scaled, features]))
    count = len(directions)
    mean = torch.zeros_like(path.x)
    for _, weight, point in path.points():
        mean = mean + weight * network.gradients(point, target)
    sizes = mean[0].abs() * (1 + SLACK) + torch.maximum(high[count:], -low[count:])
    moved = region.size(directions * sizes)  # of the factor x - baseline
    return low[:count] - moved, high[:count] + moved


def _gradient(moving: Moving, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Of the weighted sum of gradients alone."""
    path = moving.path
    if len(path.nodes) == 1:
        tree, _, _ = moving.grown(moving.swept(0))
        return tree.ends(path.weights[0] * directions)
    low = high = torch.zeros(len(directions), dtype=torch.float64)
    for number, weight in enumerate(path.weights):
        node = node_of(moving.swept(number).compact, moving.own(number))
        least, most = ends_along(node.compact, weight * directions)
        low, high = low + least, high + most
    margin = SLACK * torch.maximum(high, -low)
    return low - margin, high + margin
