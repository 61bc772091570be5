"""How far neurons can move towards their kinks, and what a switch says of delta.

p_j = s_j z'_j is below zero before a switch and not below after. For any row of the exact
relation (see ``compact``) two linear upper functions of delta are known: (a) with every r from 0
to its most, and (b) with chords in place of the r, r <= h (p - l) / (h - l) on [l, h], put in
layer by layer downwards, as CROWN does. r is convex: the chord is above it, zero below it. So

    direction * z'_j <= B_j delta + constant,

and a neuron that has switched obeys B_j delta >= theta_j = -constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.relu.compact import FREE, KEPT, STABLE, Compact
from attribound.bounding.certified.relu.region import Region

_ROWS = 1024  # neurons at once, of which several matrices are made


@dataclass(frozen=True, eq=False)
class UpperReach:
    """``B delta + constant`` is above ``direction * z'`` in the region; ``value``: its maximum."""

    slope: Tensor  # (rows, d)
    constant: Tensor  # (rows,)
    value: Tensor  # (rows,)


@dataclass(frozen=True, eq=False)
class Chords:
    """r <= slope (p - low) of each neuron, and 0 <= r <= most; all zero for what can't switch."""

    low: Tensor
    slope: Tensor
    most: Tensor

    @classmethod
    def none(cls, count: int) -> Chords:
        """Before anything is known of neurons: none switches."""
        return cls(*(torch.zeros(count, dtype=torch.float64) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class Reaches:
    """What is known of every neuron of a compact network in its region.

    Attributes:
        compact: with neurons that can't switch marked.
        rows: of each neuron, in the direction in which its state says something: towards the
            kink, or away from it for what is known not to have switched.
        certain: free neurons that must have switched, ``(n,)``.
    """

    compact: Compact
    rows: UpperReach
    certain: Tensor


def reach(compact: Compact, region: Region) -> Reaches:
    """Enclose neurons layer by layer; free ones that can't switch become stable."""
    count, size = compact.jacobian.shape
    chords = Chords.none(count)
    state = compact.state.clone()
    slope = torch.zeros(count, size, dtype=torch.float64)
    constant = torch.zeros(count, dtype=torch.float64)
    value, certain = torch.zeros_like(constant), torch.zeros(count, dtype=torch.bool)
    for layer in compact.layers():
        rows = (compact.layer == layer).nonzero().flatten()
        own = replace(compact, state=state)
        direction = torch.where(state[rows] == KEPT, -compact.s[rows], compact.s[rows])
        above = upper(own, chords, region, rows, direction)
        slope[rows], constant[rows], value[rows] = above.slope, above.constant, above.value
        free = rows[state[rows] == FREE]
        if not len(free):
            continue
        high = torch.minimum(value[free], compact.most[free])
        low = -upper(own, chords, region, free, -compact.s[free]).value
        still = value[free] < 0
        state[free[still]] = STABLE
        certain[free] = (low > 0) & ~still
        chords = extended(chords, free[~still], low[~still], high[~still])
    known = replace(
        compact, state=state, most=torch.where(state == FREE, chords.most, compact.most)
    )
    return Reaches(known, UpperReach(slope, constant, value), certain)


def extended(chords: Chords, rows: Tensor, low: Tensor, high: Tensor) -> Chords:
    """With the chords of neurons whose p is in ``[low, high]``, high >= 0."""
    lows, slopes, mosts = chords.low.clone(), chords.slope.clone(), chords.most.clone()
    least = torch.minimum(low, torch.zeros_like(low))
    lows[rows] = least
    slopes[rows] = torch.where(low >= 0, 1.0, high / (high - least).clamp_min(1e-300))
    slopes[rows] = (slopes[rows] * (1 + SLACK)).clamp_max(1.0)
    mosts[rows] = high
    return Chords(lows, slopes, mosts)


def upper(
    compact: Compact, chords: Chords, region: Region, rows: Tensor, direction: Tensor
) -> UpperReach:
    """The better of both upper functions of ``direction * z'`` of some neurons of one layer."""
    if len(rows) > _ROWS:
        parts = zip(torch.split(rows, _ROWS), torch.split(direction, _ROWS), strict=True)
        return _joined([upper(compact, chords, region, *part) for part in parts])
    turn = direction.unsqueeze(1)
    slope, reach_of = turn * compact.jacobian[rows], turn * compact.matrix[rows]
    free = compact.free
    reach_of = reach_of * free
    z, noise = direction * compact.z[rows], compact.noise[rows]
    constant = z + noise + reach_of.clamp_min(0) @ chords.most
    size = z.abs() + noise + region.size(slope) + reach_of.abs() @ chords.most
    constant = constant + SLACK * size
    by_box = UpperReach(slope, constant, constant + region.support(slope))
    if not bool((reach_of > 0).any()):
        return by_box
    by_chords = _substituted(compact, chords, region, (slope, z + noise, reach_of, size))
    better = by_chords.value < by_box.value
    return UpperReach(
        torch.where(better.unsqueeze(1), by_chords.slope, by_box.slope),
        torch.where(better, by_chords.constant, by_box.constant),
        torch.minimum(by_chords.value, by_box.value),
    )


def _joined(parts: list[UpperReach]) -> UpperReach:
    return UpperReach(
        torch.cat([each.slope for each in parts]),
        torch.cat([each.constant for each in parts]),
        torch.cat([each.value for each in parts]),
    )


def _substituted(
    compact: Compact,
    chords: Chords,
    region: Region,
    start: tuple[Tensor, Tensor, Tensor, Tensor],
) -> UpperReach:
    """Chords in place of every r with a positive coefficient, the last layer's first."""
    slope, constant, reach_of, size = start
    extent = compact.z.abs() + compact.noise + region.size(compact.jacobian) - chords.low
    absolute = reach_of.abs()
    below = compact.layers(compact.free & (chords.most > 0))
    for layer in reversed(below):
        columns = (compact.free & (compact.layer == layer)).nonzero().flatten()
        taken = reach_of[:, columns].clamp_min(0) * chords.slope[columns]
        if not bool((taken > 0).any()):
            continue
        turned = taken * compact.s[columns]
        own = compact.matrix[columns] * compact.free
        constant = constant + turned @ compact.z[columns]
        constant = constant + taken @ (compact.noise[columns] - chords.low[columns])
        slope = slope + turned @ compact.jacobian[columns]
        reach_of = reach_of + turned @ own
        size = size + absolute[:, columns] @ (extent[columns] + chords.most[columns])
        absolute = absolute + absolute[:, columns] @ own.abs()
    constant = constant + SLACK * (size + absolute @ chords.most)
    return UpperReach(slope, constant, constant + region.support(slope))
