"""Proofs that no perturbation obeys some inequalities: A delta >= b in a region.

By Farkas' lemma it is enough to find y >= 0 with ``b.y > max over the region of (A^T y).delta``.
Any y will do, so y is searched for by coordinate ascent of ``b.y - |A^T y|^2 / 2`` and improved by
a few subgradient steps; what is believed is only the final comparison, with a margin.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.relu.region import Region

_SWEEPS = 12
_STEPS = 12
#: Required of the comparison, relative to the sizes of what is compared.
MARGIN = 4 * SLACK


def infeasible(region: Region, slope: Tensor, threshold: Tensor) -> bool:
    """Whether it is proved that nothing in the region has ``slope delta >= threshold``."""
    if not len(slope):
        return False
    ones = torch.zeros(0, slope.shape[1], dtype=torch.float64)
    y = _multipliers(region, (slope, threshold), ones, threshold[:0])
    return bool(proof(region, slope, threshold, y)[0])


def without(
    region: Region, fixed: tuple[Tensor, Tensor], slope: Tensor, threshold: Tensor
) -> Tensor:
    """Of each further inequality whether it may hold together with the ``fixed`` ones."""
    if not len(slope) or not len(fixed[0]):
        return region.support(slope) >= threshold if len(slope) else threshold > 0
    y = _multipliers(region, fixed, slope, threshold)
    known, own = y[:, :-1], y[:, -1:]
    combined = known @ fixed[0] + own * slope
    sizes = known @ (fixed[1].abs() + region.size(fixed[0]))
    sizes = sizes + own[:, 0] * (threshold.abs() + region.size(slope))
    gain = known @ fixed[1] + own[:, 0] * threshold
    return ~(_greater(region, gain, combined, sizes) & _allowed(y))


def proof(region: Region, slope: Tensor, threshold: Tensor, y: Tensor) -> Tensor:
    """Of each row of multipliers ``y (n, inequalities)`` whether it is a proof."""
    sizes = y @ (threshold.abs() + region.size(slope))
    return _greater(region, y @ threshold, y @ slope, sizes) & _allowed(y)


def _greater(region: Region, gain: Tensor, combined: Tensor, sizes: Tensor) -> Tensor:
    # Both products are sums in float64, rounded relative to the sizes of their terms.
    return gain > region.support(combined) + MARGIN * sizes


def _allowed(y: Tensor) -> Tensor:
    """Which multipliers turn inequalities round: none that is negative, or no number."""
    return (y >= 0).all(1)


def _multipliers(
    region: Region, fixed: tuple[Tensor, Tensor], slope: Tensor, threshold: Tensor
) -> Tensor:
    """Nearly the best y of each further inequality with the fixed ones, ``(n, fixed + 1)``.

    Without further inequalities one row, of the fixed ones alone.
    """
    weights = region.largest if region.p == torch.inf else region.scale * region.epsilon
    a = fixed[0] * weights
    gram = a @ a.T
    rows = max(len(slope), 1)
    y = torch.zeros(rows, len(a) + 1, dtype=torch.float64)
    cross = torch.zeros(rows, len(a), dtype=torch.float64)
    extra, own = torch.ones(rows, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
    if len(slope):
        scaled = slope * weights
        cross, extra, own = scaled @ a.T, (scaled**2).sum(1), threshold
    diagonal = gram.diagonal().clamp_min(1e-30)
    last = len(a)
    for _ in range(_SWEEPS):
        if len(slope):
            slack = own - (cross * y[:, :last]).sum(1) - extra * y[:, last]
            y[:, last] = (y[:, last] + slack / extra.clamp_min(1e-30)).clamp_min(0)
        for i in range(last):
            slack = fixed[1][i] - y[:, :last] @ gram[i] - cross[:, i] * y[:, last]
            y[:, i] = (y[:, i] + slack / diagonal[i]).clamp_min(0)
    if not len(slope):
        return y[:, :last]
    return y


def nearest(region: Region, slope: Tensor, threshold: Tensor) -> Tensor:
    """A perturbation that nearly obeys the inequalities, small in the units of the region."""
    weights = region.largest if region.p == torch.inf else region.scale * region.epsilon
    none = torch.zeros(0, slope.shape[1], dtype=torch.float64)
    y = _multipliers(region, (slope, threshold), none, threshold[:0])
    return (y[0] @ (slope * weights)) * weights
