"""Scaled balls of smooth networks: the plain ball of inputs that are counted in their units."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.bounding.certified.network import Network
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.relu.region import Region

#: How far features that can't change are let move, as a part of what others do to the first layer.
_STILL = 1e-6


def units_of(network: Network, scale: Tensor) -> Tensor:
    """Units above 0 for each feature, ``(1, d)``: the ``scale (d,)`` of a ball, or nearly none.

    A plain ball in these units holds the scaled ball: in it frozen features move, too, by a
    millionth of what the first layer sees of the others. So it is hardly wider, and all components
    of the gradient, those of frozen features as well, can be told from its own.
    """
    seen = network.stages[0].linear(torch.eye(len(scale), dtype=torch.float64)).norm(dim=1)
    most = (scale * seen).max()
    still = _STILL * torch.where(seen > 0, most / seen.clamp_min(1e-300), scale.max())
    still = torch.where(still > 0, still, 1.0).clamp_max(float(scale.max()))
    return torch.where(scale > 0, scale, still).reshape(1, -1)


def in_units(
    network: Network, path: GradientPath, region: Region
) -> tuple[Network, GradientPath, Region]:
    """Network, path and region of inputs that are counted in the units of the region."""
    if bool((region.scale == 1).all()):
        return network, path, region
    units = units_of(network, region.scale)
    own = units[0]
    # Ends are rounded away from zero: the region is not smaller than it was.
    low, high = (end / own * (1 + 1e-15) for end in (region.low, region.high))
    scale = torch.where(region.scale > 0, 1.0, 0.0).to(own)
    made = Region(region.p, region.epsilon * (1 + 1e-15), scale, low, high)
    return network.in_units(units), path.in_units(units), made
