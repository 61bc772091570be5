"""Where the Jacobian of exact integrated gradients is one of several, and where there is none.

On each piece of the path the argument of a neuron is ``c + alpha s``; c, its affine extension at
the baseline, does not depend on the end of the path. If no c is zero, integrated gradients are
Lipschitz and piecewise smooth: the mean value theorem holds with the essential supremum of the
Jacobian. Where c is zero (networks without biases and baseline zero: everywhere) they jump when
the neuron switches.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attribound.attributions.exact.cells import StraightPaths, cells
from attribound.attributions.exact.piecewise import PiecewiseLinear
from attribound.networks.probe import random_direction

#: Of what a neuron sums up, in absolute values: below, c is zero.
_ZERO = 1e-13
#: Of the largest derivative in the layer along a random direction: below, a neuron has none.
_STILL = 1e-12
#: Cells up to which c is looked at in all of them; beyond, in the first one.
_LOOKED_AT = 2000


def standing(
    network: PiecewiseLinear, lines: StraightPaths, crossings: int, resolution: float
) -> tuple[Tensor, Tensor]:
    """For each path whether its end is on a kink, and whether the integral jumps somewhere.

    Args:
        network: piecewise linear.
        lines: the paths.
        crossings: about how many one of them has.
        resolution: relative error of the inputs; an argument below that is zero.
    """
    ends = lines.base + lines.away
    scattered = random_direction(lines.base)
    on_kink = torch.zeros(len(ends), dtype=torch.bool)
    slopes = network.pushed(network.masks(ends), scattered)
    for (z, size), slope in zip(_sized(network, ends), slopes, strict=True):
        on_kink |= _any(z, 4 * resolution * size, slope)
    jumps = torch.zeros_like(on_kink)
    for part in cells(network, lines, crossings):
        owner, masks, alpha = part.owner, part.masks, (part.start + part.end) / 2
        if crossings > _LOOKED_AT:
            first = torch.ones_like(owner, dtype=torch.bool)
            first[1:] = owner[1:] != owner[:-1]
            owner, masks, alpha = owner[first], masks[first], alpha[first]
        here = _sized(network, lines.at(alpha, owner))
        along, across = (network.pushed(masks, v[owner]) for v in (lines.away, scattered))
        for (z, size), slope, other in zip(here, along, across, strict=True):
            found = _any(z - alpha.unsqueeze(1) * slope, _ZERO * size, other)
            jumps[owner[found]] = True
        if crossings > _LOOKED_AT:
            break
    return on_kink, jumps


def _sized(network: PiecewiseLinear, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The argument of every neuron, and what it sums up in absolute values."""
    for layer, stage in enumerate(network.stages[:-1]):
        z = stage.value(x)
        yield z, stage.magnitude(x.abs())
        x = network.activate(layer, z)


def _any(value: Tensor, zero: Tensor, slope: Tensor) -> Tensor:
    """Rows with a value of zero that does depend on the input."""
    alive = slope.abs() > _STILL * slope.abs().amax(1, keepdim=True)
    return ((value.abs() <= zero) & alive).any(1)
