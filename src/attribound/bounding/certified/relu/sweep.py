"""One sweep through a network: its compact form around a point.

Layer by layer: preactivations, their derivatives by the input (one pass forwards for each
feature), by every neuron below that may switch (one pass for each), and then which neurons of
this layer may switch. Only those are kept.

The masks are those of the network *as it is evaluated*, in float32 say: an evaluated
preactivation is an exact one whose sums were disturbed, by at most ``margin (|W| |a| + |b|)``.
Those disturbances, the rounding of what is computed here in float64, and the rounding of the
inputs all go into one number a neuron, ``noise``, through absolute values of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, UNIT, up
from attribound.bounding.certified.rectified import Rectified, slopes_where
from attribound.bounding.certified.relu.adjoint import adjoints
from attribound.bounding.certified.relu.compact import FREE, Compact
from attribound.bounding.certified.relu.memory import check_memory
from attribound.bounding.certified.relu.noise import through
from attribound.bounding.certified.relu.reach import Chords, extended, upper
from attribound.bounding.certified.relu.region import Region

_SMALLEST = 2.0**-126  # in float32: what is smaller may be lost with every product and sum


#: Bytes of one number of a direction in a layer, and of a pair of neurons with what is made of it.
_EACH, _PAIRS = 8, 8 * 4
_ROWS = 256  # directions or neurons of a layer, handled together


@dataclass(frozen=True, eq=False)
class Point:
    """Where a network is looked at: one example, flat.

    Attributes:
        x: ``(1, d)``; ``spread``: the size of the numbers it was computed from.
        target: whose logit.
        unit: of the rounding of the network as it is evaluated, e.g. 2**-24.
    """

    x: Tensor
    spread: Tensor
    target: int
    unit: float


@dataclass(frozen=True, eq=False)
class Swept:
    """The compact form at a point.

    Attributes:
        gradient: there, ``(d,)``.
        places: of the neurons of the compact form in their layers, ``(n,)``.
    """

    compact: Compact
    gradient: Tensor
    places: Tensor


@dataclass(eq=False)
class _Sweep:
    """What is carried from layer to layer; matrices are ``(directions or neurons, width)``."""

    tangent: Tensor
    columns: Tensor
    noise: Tensor
    moved: Tensor  # |a' - a|, at most
    size: Tensor  # what a was computed from
    reached: Tensor  # |J delta| + |M r| of each neuron after its mask, at most
    compact: Compact
    chords: Chords


def sweep(
    network: Rectified, region: Region, point: Point, memory_limit: int, held: int = 0
) -> Swept:
    """The compact form of ``network`` for all perturbations of ``point`` in ``region``.

    ``held``: bytes of the limit that others have.

    Raises:
        MemoryLimitError: the derivatives of a layer and the neurons that may switch do not fit.
    """
    size = point.x.shape[1]
    none = torch.zeros(1, size, dtype=torch.float64)
    state = _Sweep(
        torch.eye(size, dtype=torch.float64),
        torch.zeros(0, size, dtype=torch.float64),
        none,
        region.largest.unsqueeze(0),
        4 * point.spread + point.x.abs(),
        region.largest.unsqueeze(0),
        _empty(size),
        Chords.none(0),
    )
    a = point.x
    slopes: list[Tensor] = []
    switched: list[Tensor] = []
    fresh_noise: list[Tensor] = []
    for number, (stage, low) in enumerate(zip(network.stages[:-1], network.slopes, strict=True)):
        z = stage.value(a)
        own = stage.margin * stage.magnitude(state.size)
        ratio = point.unit / UNIT
        evaluated = stage.margin * ratio * stage.magnitude(state.size + state.moved)
        evaluated = evaluated + stage.margin / UNIT * _SMALLEST
        products = stage.margin * stage.absolute().linear(state.reached)
        fresh_noise.append(up(own + evaluated + products))
        noise = up(fresh_noise[-1] + stage.absolute().linear(state.noise))
        directions = size + len(state.columns)
        needed = held + _EACH * directions * (z.shape[1] + state.tangent.shape[1])
        of = f"{directions} directions and a layer of {z.shape[1]}"
        check_memory(needed, memory_limit, of)
        tangent, columns = stage.linear(state.tangent), stage.linear(state.columns)
        value = _reach_of_all(state, region, (z, tangent, columns))
        if number >= 2:
            near = (value + noise[0] >= 0).nonzero().flatten()
            noise[0, near] = through(network, slopes, fresh_noise, near, noise)
        value = value + noise[0] * (1 + SLACK)
        several = directions - size + int((value >= 0).sum())
        needed += _PAIRS * several**2
        check_memory(needed, memory_limit, f"{of}, and {several} neurons that may switch")
        found = _layer(state, region, number, (z, tangent, columns, noise, value))
        slope = slopes_where(z > 0, low)
        rows = found.rows
        switched.append(rows)
        grown = torch.zeros(len(columns) + len(rows), z.shape[1], dtype=torch.float64)
        torch.mul(columns, slope, out=grown[: len(columns)])
        grown[torch.arange(len(columns), len(grown)), rows] = 1.0 - low
        state = _Sweep(
            tangent.mul_(slope),
            grown,
            noise * slope,
            up(found.reached + noise),
            (z * slope).abs(),
            found.reached,  # the masks only make it smaller, and r is counted
            found.compact,
            found.chords,
        )
        a = z * slope
        slopes.append(slope)
    return _backward(network, state.compact, (slopes, switched), point)


@dataclass(frozen=True, eq=False)
class _Found:
    rows: Tensor
    reached: Tensor
    compact: Compact
    chords: Chords


def _layer(state: _Sweep, region: Region, number: int, values: tuple[Tensor, ...]) -> _Found:
    """Which neurons of a layer may switch: first a look at all, then a closer one."""
    z, tangent, columns, noise, value = values
    s = torch.where(z[0] > 0, -1.0, 1.0).to(z)
    candidates = (value >= 0).nonzero().flatten()
    most = state.chords.most
    reached = up(region.size(tangent.T) + _summed(columns, most, torch.abs)).unsqueeze(0)
    before = len(state.compact)
    grown = _grown(state.compact, number, (z[0], s, tangent, columns, noise[0]), candidates)
    chords = Chords(
        *(torch.cat([each, each.new_zeros(len(candidates))]) for each in _parts(state.chords))
    )
    new = torch.arange(before, len(grown))
    above = upper(grown, chords, region, new, grown.s[new])
    kept = above.value >= 0
    low = -upper(grown, chords, region, new[kept], -grown.s[new[kept]]).value
    high = torch.minimum(above.value, value[candidates])[kept]
    chords = extended(chords, new[kept], low, high)
    stays = torch.cat([torch.ones(before, dtype=torch.bool), kept])
    grown = replace(grown, most=chords.most).only(stays)
    chords = Chords(*(each[stays] for each in _parts(chords)))
    own = candidates[kept]
    # What r adds to the value after a neuron.
    reached[0, own] = reached[0, own] + chords.most[before:]
    return _Found(own, reached, grown, chords)


def _reach_of_all(state: _Sweep, region: Region, values: tuple[Tensor, ...]) -> Tensor:
    """How far beyond its kink every neuron of a layer gets, at most, noise aside, ``(width,)``."""
    z, tangent, columns = values
    s = torch.where(z[0] > 0, -1.0, 1.0).to(z)
    by_others = _summed(columns, state.chords.most, lambda part: (part * s).clamp_min_(0))
    parts = torch.split(torch.arange(len(s)), _ROWS)
    along = [region.support(tangent[:, part].T * s[part].unsqueeze(1)) for part in parts]
    value = s * z[0] + torch.cat(along) + by_others
    return value + SLACK * (z[0].abs() + by_others)


def _summed(rows: Tensor, weights: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
    """``work(rows)^T weights``, a few rows at a time: those of a layer are most of the memory."""
    total = torch.zeros_like(rows[0]) if len(rows) else rows.new_zeros(rows.shape[1])
    for some, own in zip(torch.split(rows, _ROWS), torch.split(weights, _ROWS), strict=True):
        total += own @ work(some)
    return total


def _parts(chords: Chords) -> tuple[Tensor, Tensor, Tensor]:
    return chords.low, chords.slope, chords.most


def _empty(size: int) -> Compact:
    none = torch.zeros(0, dtype=torch.float64)
    whole = torch.zeros(0, dtype=torch.long)
    return Compact(
        layer=whole,
        state=whole,
        z=none,
        s=none,
        u=none,
        jacobian=torch.zeros(0, size, dtype=torch.float64),
        matrix=torch.zeros(0, 0, dtype=torch.float64),
        noise=none,
        adjoint_noise=none,
        shift=torch.zeros(size, dtype=torch.float64),
        gradient_noise=0.0,
        most=none,
        u_low=none,
        u_high=none,
    )


def _grown(compact: Compact, number: int, values: tuple[Tensor, ...], rows: Tensor) -> Compact:
    """With some neurons of the next layer; their adjoints come later."""
    z, s, tangent, columns, noise = values
    old, new = len(compact), len(rows)
    matrix = torch.zeros(old + new, old + new, dtype=torch.float64)
    matrix[:old, :old] = compact.matrix
    matrix[old:, :old] = columns[:, rows].T
    zeros = torch.zeros(new, dtype=torch.float64)

    def joined(own: Tensor, fresh: Tensor) -> Tensor:
        return torch.cat([own, fresh])

    return replace(
        compact,
        layer=joined(compact.layer, torch.full((new,), number)),
        state=joined(compact.state, torch.full((new,), FREE)),
        z=joined(compact.z, z[rows]),
        s=joined(compact.s, s[rows]),
        u=joined(compact.u, zeros),
        jacobian=joined(compact.jacobian, tangent[:, rows].T),
        matrix=matrix,
        noise=joined(compact.noise, noise[rows]),
        adjoint_noise=joined(compact.adjoint_noise, zeros),
        most=joined(compact.most, zeros),
        u_low=joined(compact.u_low, zeros),
        u_high=joined(compact.u_high, zeros),
    )


def _backward(
    network: Rectified,
    compact: Compact,
    known: tuple[list[Tensor], list[Tensor]],
    point: Point,
) -> Swept:
    """The adjoints of the neurons that may switch, and the gradient, with their rounding.

    ``size`` bounds, through absolute values, all that is added up on the way to a neuron, w of
    later neurons included: errors are relative to it. The w are enclosed layer by layer.
    """
    slopes, switched = known
    v = torch.zeros(1, network.stages[-1].sizes[-1], dtype=torch.float64)
    v[0, point.target] = 1.0
    size = v.clone()
    margin = 4 * sum(stage.margin for stage in network.stages)
    count = len(compact)
    inf = torch.full((count,), torch.inf, dtype=torch.float64)
    compact = replace(compact, u_low=-inf, u_high=inf)
    for number in range(len(network.stages) - 1, 0, -1):
        stage, low = network.stages[number], network.slopes[number - 1]
        u, size = stage.adjoint(v), stage.absolute().adjoint(size)
        rows = switched[number - 1]
        own = (compact.layer == number - 1).nonzero().flatten()
        compact.u[own] = (1 - low) * u[0, rows]
        compact.adjoint_noise[own] = up(margin * size[0, rows])
        compact = adjoints(compact, number - 1)
        slope = slopes[number - 1]
        v, size = slope * u, slope * (size + u.abs())
        size[0, rows] = size[0, rows] + compact.steepest[own]
    gradient, size = network.stages[0].adjoint(v), network.stages[0].absolute().adjoint(size)
    noise = (margin * size.norm()).item() * (1 + SLACK)
    places = torch.cat(switched) if switched else torch.zeros(0, dtype=torch.long)
    return Swept(replace(compact, gradient_noise=noise), gradient[0], places)
