"""What the derivative of the logit by a neuron can be, and by a direction of the input.

u' = u + sum M w, where w_k is 0, or s_k u'_k if k switched. For a coefficient c of w_k,
c w_k <= max(0, v) with v = c s_k u'_k: convex in u'_k, so that a chord of it is above, and
u'_k can be put in, layer by layer upwards. Beside it stands the plain interval sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK
from attribound.bounding.certified.relu.compact import Compact

_ROWS = 1024  # sums at once, of which a dozen matrices are made


@dataclass(frozen=True, eq=False)
class Switching:
    """The ends of w of every neuron, zero among them; both 0 where it can't switch."""

    low: Tensor
    high: Tensor


def adjoints(compact: Compact, only: int | None = None) -> Compact:
    """Enclose u' of the free neurons, the last layer first; or of one layer, those after done."""
    low, high = compact.u_low.clone(), compact.u_high.clone()
    for layer in reversed(compact.layers()) if only is None else [only]:
        rows = (compact.free & (compact.layer == layer)).nonzero().flatten()
        if not len(rows):
            continue
        own = replace(compact, u_low=low, u_high=high)
        coefficients = compact.matrix[:, rows].T
        noise = compact.adjoint_noise[rows]
        most = largest(own, coefficients, layer) + compact.u[rows]
        least = largest(own, -coefficients, layer) - compact.u[rows]
        margin = noise + SLACK * compact.u[rows].abs()
        high[rows] = torch.minimum(high[rows], most + margin)
        low[rows] = torch.maximum(low[rows], -(least + margin))
    return replace(compact, u_low=low, u_high=high)


def switching(compact: Compact) -> Switching:
    """Where the w of every neuron lie."""
    ends = torch.stack([compact.s * compact.u_low, compact.s * compact.u_high])
    zero = torch.zeros_like(compact.z)
    low = torch.minimum(ends.amin(0), zero)
    high = torch.maximum(ends.amax(0), zero)
    return Switching(torch.where(compact.free, low, zero), torch.where(compact.free, high, zero))


def largest(compact: Compact, coefficients: Tensor, above: int = -1) -> Tensor:
    """The largest sum of ``coefficients (rows, n)`` times w over layers after ``above``."""
    if len(coefficients) > _ROWS:
        parts = torch.split(coefficients, _ROWS)
        return torch.cat([largest(compact, some, above) for some in parts])
    active = compact.free & (compact.layer > above)
    every = switching(compact)
    ends = Switching(*(torch.where(active, end, 0.0) for end in (every.low, every.high)))
    coefficients = coefficients * active
    plain = coefficients.clamp_min(0) @ ends.high + coefficients.clamp_max(0) @ ends.low
    sizes = coefficients.abs() @ compact_size(ends)
    plain = plain + SLACK * sizes
    layers = compact.layers(active)
    if len(layers) < 2:
        return plain
    total = torch.zeros_like(plain)
    absolute = coefficients.abs()
    size = torch.zeros_like(plain)
    for layer in layers:
        columns = (active & (compact.layer == layer)).nonzero().flatten()
        c = coefficients[:, columns] * compact.s[columns]
        first, second = c * compact.u_low[columns], c * compact.u_high[columns]
        low, high = torch.minimum(first, second), torch.maximum(first, second)
        mixed = (low < 0) & (high > 0)
        chord = torch.where(low >= 0, 1.0, 0.0).to(c)
        chord = torch.where(mixed, high / (high - low).clamp_min(1e-300), chord)
        total = total + torch.where(mixed, -chord * low, 0.0).sum(1)
        taken = chord * c
        total = total + taken @ compact.u[columns]
        total = total + taken.abs() @ compact.adjoint_noise[columns]
        own = (compact.matrix[:, columns] * active.unsqueeze(1)).T
        coefficients = coefficients + taken @ own
        reach = compact.u[columns].abs() + compact.steepest[columns]
        size = size + absolute[:, columns] @ (reach + compact.adjoint_noise[columns])
        absolute = absolute + absolute[:, columns] @ own.abs()
    return torch.minimum(plain, total + 4 * SLACK * size)


def compact_size(ends: Switching) -> Tensor:
    """The size of every w."""
    return torch.maximum(ends.high, -ends.low)
