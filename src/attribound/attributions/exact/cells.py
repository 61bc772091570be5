"""Where the paths from baselines to inputs cross kinks, found layer by layer.

Between crossings of the layers before it the argument of a neuron is linear on the path, so
that a change of its sign between two neighbouring points gives its crossing by interpolation.
Following one change of a mask after another instead would lose one of two neurons that switch
at the same place (duplicates, layers without biases, flat areas of images), for the rest of the
path.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.exact.piecewise import PiecewiseLinear

#: Crossings nearer to each other than this, of the path, are one.
MERGED = 1e-12
#: Of the largest argument in a layer: smaller ones are zero.
_NOISE = 16 * torch.finfo(torch.float64).eps
#: Numbers that may be held for one layer.
_HELD = 2**22
#: Times as many points in a part as were thought of: then it is cut in two.
_CROWDED = 4
#: Points between which changes of sign are counted beforehand.
_PILOTS = 129


@dataclass(frozen=True, eq=False)
class StraightPaths:
    """The paths ``base + alpha (x - base)`` of a batch, flat ``(batch, d)`` in float64."""

    base: Tensor
    away: Tensor

    def at(self, alpha: Tensor, owner: Tensor) -> Tensor:
        """Points, ``alpha`` and ``owner`` (which path) of shape ``(n,)``."""
        return self.base[owner] + alpha.unsqueeze(1) * self.away[owner]


@dataclass(frozen=True, eq=False)
class Cells:
    """Parts of paths on which the network is linear, in the order of path and place.

    Attributes:
        owner: whose path, ``(n,)``.
        start, end: places on it.
        masks: which neurons are on, ``(n, neurons)``.
    """

    owner: Tensor
    start: Tensor
    end: Tensor
    masks: Tensor


def estimate(network: PiecewiseLinear, lines: StraightPaths) -> Tensor:
    """About how many crossings each path has: changes of sign between 129 points on it."""
    alpha = torch.linspace(0, 1, _PILOTS, dtype=torch.float64)
    counts = torch.zeros(len(lines.base), dtype=torch.long)
    for row in range(len(lines.base)):
        owner = torch.full_like(alpha, row, dtype=torch.long)
        for z in network.arguments(lines.at(alpha, owner))[:-1]:
            counts[row] += ((z[1:] > 0) != (z[:-1] > 0)).sum()
    return counts


def cells(network: PiecewiseLinear, lines: StraightPaths, crossings: int) -> Iterator[Cells]:
    """The cells of all paths, in parts that fit: each from one place of the paths to another.

    Crossings lie close in some places (near a black image, where all that counts are biases): a
    part that has too many of them is cut in two where half of them are found.

    Masks are read in the middle of the cells, where no neuron is at zero that is not so
    everywhere: at crossings themselves they are anyone's guess.

    Args:
        network: piecewise linear.
        lines: the paths.
        crossings: about how many one of them has.
    """
    points = len(lines.base) * (crossings + 2)
    parts = max(1, -(-points * network.widest // _HELD))
    most = _CROWDED * max(len(lines.base) * 2, -(-points // parts))
    ends = torch.linspace(0, 1, parts + 1, dtype=torch.float64).tolist()
    waiting = [*itertools.pairwise(ends)][::-1]
    while waiting:
        low, high = waiting.pop()
        fits = most if high - low > MERGED else None
        owner, alpha = breakpoints(network, lines, low, high, fits)
        if fits is not None and len(owner) > fits:
            middle = alpha.median().item()  # no end: crossings next to those are merged with them
            waiting += [(middle, high), (low, middle)]
            continue
        same = owner[1:] == owner[:-1]
        whose, start, end = owner[:-1][same], alpha[:-1][same], alpha[1:][same]
        masks = network.masks(lines.at((start + end) / 2, whose))
        yield Cells(whose, start, end, masks)


def breakpoints(
    network: PiecewiseLinear,
    lines: StraightPaths,
    low: float,
    high: float,
    most: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Paths and places between which the network is linear, both ends of ``[low, high]`` included.

    Each layer is evaluated once at each point; at points found later the arguments of the
    layers before are interpolated. Where there are more than ``most`` points it gives up: what it
    returns are then the crossings of the first layers, more than ``most``.
    """
    owner = torch.arange(len(lines.base)).repeat_interleave(2)
    alpha = torch.tensor([low, high], dtype=torch.float64).repeat(len(lines.base))
    z = network.stages[0].value(lines.at(alpha, owner))
    for layer, stage in enumerate(network.stages[1:]):
        owner, alpha, z = _refined(owner, alpha, z, most)
        if most is not None and len(owner) > most:
            break
        if layer + 1 < len(network.widths):
            z = stage.value(network.activate(layer, z))
    return owner, alpha


def _refined(
    owner: Tensor, alpha: Tensor, z: Tensor, most: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The points and the crossings between them, with the arguments ``z`` there.

    Without these if there are more than ``most``, which may not fit.
    """
    least = _NOISE * z.abs().amax()
    above, below = z > least, z < -least
    changes = (above[:-1] & below[1:]) | (below[:-1] & above[1:])
    changes &= (owner[1:] == owner[:-1]).unsqueeze(1)
    before, neuron = changes.nonzero(as_tuple=True)
    left, right = z[before, neuron], z[before + 1, neuron]
    place = alpha[before] + (alpha[before + 1] - alpha[before]) * (left / (left - right))
    # In the order of path and place; of equal places the point that was there before is first.
    every_owner, every_place = torch.cat([owner, owner[before]]), torch.cat([alpha, place])
    old = torch.arange(len(every_owner)) < len(owner)
    order = torch.argsort(every_place, stable=True)
    order = order[torch.argsort(every_owner[order], stable=True)]
    whose, where, known = every_owner[order], every_place[order], old[order]
    near = (whose[1:] == whose[:-1]) & (where[1:] - where[:-1] <= MERGED)
    kept = torch.ones_like(known)
    kept[1:] &= ~near | known[1:]
    kept[:-1] &= ~(near & known[1:]) | known[:-1]
    source = torch.cat([torch.arange(len(owner)), before])[order][kept]
    whose, where, known = whose[kept], where[kept], known[kept]
    if most is not None and len(whose) > most:
        return whose, where, z
    after = torch.where(known, source, source + 1)
    width = torch.where(known, 1.0, alpha[after] - alpha[source])
    share = torch.where(known, 0.0, (where - alpha[source]) / width).unsqueeze(1)
    return whose, where, torch.lerp(z[source], z[after], share)
