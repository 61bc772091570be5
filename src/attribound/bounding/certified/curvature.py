"""How far an activation can be from its tangent and its slope from its own, near each neuron.

Over the interval |h| <= radius around z, sharper than with the suprema of the
derivatives, which are the case of one piece: the remainders are *means* of a
derivative between z and z + h,

    f(z + h) - f(z)            = h   mean of f'
    f(z + h) - f(z) - h f'(z)  = h^2 / 2 weighted mean of f'', weights 2 (h - t) / h^2,

so that pieces of the interval are bounded by their own suprema and averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.bounding.certified.activation import (
    EVALUATION,
    SmoothActivation,
    logistic,
    logistic_range,
)

PIECES = 16
_WIDEST = 1e30


@dataclass(frozen=True, eq=False)
class Curvature:
    """Constants for all |h| <= radius, per neuron; f is the activation.

    Attributes:
        chord: |f(z + h) - f(z)| <= chord |h|.
        bow: |f(z + h) - f(z) - f'(z) h| <= bow h^2.
        turn: |f'(z + h) - f'(z)| <= turn |h|.
        twist: |f'(z + h) - f'(z) - f''(z) h| <= twist h^2.
        swing: |f'(z + h) - f'(z)| <= swing.
    """

    chord: Tensor
    bow: Tensor
    turn: Tensor
    twist: Tensor
    swing: Tensor


def curvature(
    activation: SmoothActivation, z: Tensor, radius: Tensor, pieces: int = PIECES
) -> Curvature:
    """The constants around ``z``, valid for every real |h| <= radius."""
    centre, width = activation.rate * z, activation.rate * radius
    usable = width < _WIDEST  # false for NaN, too
    width = torch.where(usable, width, torch.full_like(width, _WIDEST))
    steps = torch.arange(pieces + 1, dtype=z.dtype).view(-1, *[1] * z.dim())
    constants = {}
    swing = torch.zeros_like(z)
    for order in (1, 2, 3):
        sharp: list[tuple[Tensor, Tensor]] = []
        for side in (1, -1):
            edges = centre + side * steps * (width / pieces)
            low, high = torch.minimum(edges[:-1], edges[1:]), torch.maximum(edges[:-1], edges[1:])
            outward = 2.0**-48 * (centre.abs() + width)  # the edges themselves are rounded
            least, most = logistic_range(activation.order + order, low - outward, high + outward)
            sharp += [running_means(most), running_means(-least)]
            if order == 1:
                slope = logistic(activation.order + 1, centre)
                for far in (most.amax(0) - slope, slope - least.amin(0)):
                    swing = torch.maximum(swing, far + 4 * EVALUATION)
        mean = torch.stack([first for first, _ in sharp]).amax(0)
        weighted = torch.stack([second for _, second in sharp]).amax(0)
        # Beyond the widest interval the supremum over the whole line serves.
        mean, weighted = (
            torch.where(usable, value, torch.ones_like(value)) for value in (mean, weighted)
        )
        size = activation.size(order) * (1 + 64 * EVALUATION)
        constants[order] = size * mean, size * weighted
    return Curvature(
        chord=constants[1][0],
        bow=constants[2][1] / 2,
        turn=constants[2][0],
        twist=constants[3][1] / 2,
        swing=activation.size(1) * (1 + 64 * EVALUATION) * torch.where(usable, swing, 1.0),
    )


def running_means(steps: Tensor) -> tuple[Tensor, Tensor]:
    """Suprema over h in (0, 1] of the plain and weighted means over [0, h] of a step function.

    ``steps`` holds its values, shape ``(pieces, *)``, on equal pieces of [0, 1]. The
    plain mean A(h) moves monotonically inside a piece. The weighted one has
    F' = (2 / h) (A - F): inside the piece after h it is at most
    F(h) + max(sup A - F(h), 0) (1 - (h / h')^2), h' the end of the piece.
    """
    pieces = len(steps)
    count = torch.arange(1, pieces + 1, dtype=steps.dtype).view(-1, *[1] * (steps.dim() - 1))
    total = steps.cumsum(0)
    mean = total / count
    weighted = 2 * (total.cumsum(0) - total / 2) / count**2
    top = torch.maximum(mean[:-1], mean[1:])
    growth = 1 - (count[:-1] / count[1:]) ** 2
    between = weighted[:-1] + (top - weighted[:-1]).clamp_min(0) * growth
    sharpest = torch.cat([steps[:1], between]).amax(0)
    # Each value of p's derivatives is below one: sums of a few dozen are off by this at most.
    margin = 8 * pieces * EVALUATION
    return mean.amax(0) + margin, sharpest + margin
