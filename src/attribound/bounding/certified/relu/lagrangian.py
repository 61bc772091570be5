"""All switches share one perturbation: a bound that knows it, by Lagrange multipliers.

Item i, taken (f_i = 1), asks for b_i v >= t_i, with v the perturbation in units of the region:
|v|_2 <= 1, or every |v_j| <= 1. For any multipliers a, nu >= 0

    |c + sum f G|^2 <= |c + sum f G|^2 + sum f_i a_i (b_i v - t_i) + sum nu_j (room_j - v_j^2),

and the largest right side over v is |c + sum f G|^2 + sum_j (sum_i f_i a_i b_ij)^2 / (4 nu_j)
- sum f_i a_i t_i + the room. Over f from {0, 1} that is a cut problem again, of rows
[G_i, a_i b_i / (2 sqrt nu)] and an arrow of a_i t_i, with the same dual. a is searched for; what is
proved is that Diag(y) - Q is positive semidefinite, for the a, nu and y found. a = 0 is the plain
cut. It is worth most where many neurons could switch, but each in a direction of its own.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY
from attribound.bounding.certified.quadratic import proved
from attribound.bounding.certified.relu.cut import longest
from attribound.bounding.certified.relu.region import Region

MOST = 3500  # items whose matrix is made
_COLUMNS, _STEPS = 12, 60
_RATES = (0.25, 0.01)  # of steps in the logarithms, first and last
_SHARES = (0.0, 0.3, 1.0, 3.0, 10.0)  # of the multipliers that are tried first
_CARRIED, _LAST = (0.7, 0.9), 100  # of the last move, on the way and at the end; rounds there


@dataclass(frozen=True, eq=False)
class Terms:
    """Items with what they ask for, in units of the region; ``cube``: of every v_j alone."""

    centre: Tensor  # (d,)
    items: Tensor  # (n, d)
    slope: Tensor  # (n, d)
    threshold: Tensor  # (n,)
    cube: bool


def shared(
    region: Region,
    centre: Tensor,
    items: Tensor,
    slope: Tensor,
    threshold: Tensor,
    end: float = math.inf,
) -> float:
    """The largest ``|centre + sum f items|`` where taken items have ``slope delta >= threshold``.

    Beyond :data:`MOST` items the smallest count as if each had a perturbation of its own. At
    ``end``, in seconds of the monotonic clock, the search for multipliers is over: those that
    were found by then prove something, too.
    """
    if region.p not in (2.0, math.inf) or not len(items):
        return longest(centre, items)
    order = items.norm(dim=1).argsort(descending=True)
    first, rest = order[:MOST], order[MOST:]
    asked = _in_units(region, centre, items[first], slope[first], threshold[first])
    found = math.sqrt(max(_proved(asked, *_multipliers(asked, end)), 0.0)) * (1 + SLACK)
    found += longest(torch.zeros_like(centre), items[rest]) if len(rest) else 0.0
    return min(found, longest(centre, items))


def _in_units(
    region: Region, centre: Tensor, items: Tensor, slope: Tensor, threshold: Tensor
) -> Terms:
    sizes = threshold.abs() + region.size(slope)
    if region.p == math.inf:
        middle, half = (region.high + region.low) / 2, (region.high - region.low) / 2
        threshold = threshold - slope @ middle - SLACK * sizes
        return Terms(centre, items, slope * half, threshold, cube=True)
    units = region.possible(slope) * (region.scale * region.epsilon)
    return Terms(centre, items, units, threshold - SLACK * sizes, cube=False)


def _estimate(asked: Terms, a: Tensor, nu: Tensor, v: Tensor) -> Tensor:
    """The Lagrangian at unit rows ``v``, the first of which is the sign one."""
    taken = (v[1:] + v[:1]) / 2
    moved = torch.outer(asked.centre, v[0]) + asked.items.T @ taken
    terms = ((a.unsqueeze(1) * asked.slope).T @ taken).square().sum(1)
    paid = a * asked.threshold * (1 + (v[1:] * v[:1]).sum(1)) / 2
    room = nu.sum() if asked.cube else nu[0]
    return moved.square().sum() + (terms / (4 * nu)).sum() + room - paid.sum()


def _nu(asked: Terms, a: Tensor, v: Tensor) -> Tensor:
    taken = (v[1:] + v[:1]) / 2
    terms = ((a.unsqueeze(1) * asked.slope).T @ taken).square().sum(1)
    if asked.cube:
        return terms.sqrt() / 2 + 1e-9 * terms.sqrt().mean() + TINY
    return torch.full_like(terms, (terms.sum().sqrt() / 2 + TINY).item())


def _rows(asked: Terms, a: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
    """H, its first row the sign one, and the arrow q."""
    scaled = a.unsqueeze(1) * asked.slope / (2 * nu.sqrt())
    half = torch.cat([asked.items, scaled], 1) / 2
    first = half.sum(0)
    first[: len(asked.centre)] += asked.centre
    return torch.cat([first.unsqueeze(0), half]), a * asked.threshold / 4


def _ascend(
    rows: Tensor, arrow: Tensor, v: Tensor, rounds: int, carried: float = _CARRIED[0]
) -> Tensor:
    """Unit rows nearer to the largest ``<Q, v v^T>``, Q = H H^T minus the arrow.

    The power method, from a point a part of the last move ahead, which is several times faster.
    """
    weights, old = arrow.abs(), v
    for _ in range(rounds):
        ahead = v + carried * (v - old)
        image = rows @ (rows.T @ ahead)
        image[1:] += weights.unsqueeze(1) * ahead[1:] - arrow.unsqueeze(1) * ahead[:1]
        image[0] += weights.sum() * ahead[0] - arrow @ ahead[1:]
        old, v = v, image / image.norm(dim=1, keepdim=True).clamp_min(TINY)
    return v


def _multipliers(asked: Terms, end: float) -> tuple[Tensor, Tensor, Tensor]:
    """Nearly the best a and nu, with the v that belong to them: estimates, no bound."""
    generator = torch.Generator().manual_seed(0)
    count = len(asked.items)
    v = torch.randn(count + 1, _COLUMNS, generator=generator, dtype=torch.float64)
    v = v / v.norm(dim=1, keepdim=True)
    zero = torch.zeros(count, dtype=torch.float64)
    ones = torch.ones(asked.slope.shape[1], dtype=torch.float64)
    v = _ascend(*_rows(asked, zero, ones), v, 20)
    if not bool((asked.threshold > 0).any()):
        return zero, ones, v
    start = _start(asked, v)
    best, chosen = math.inf, (zero, v)
    for share in _SHARES:
        a, w = share * start, v
        for _ in range(3):
            w = _ascend(*_rows(asked, a, _nu(asked, a, w)), w, 4)
        value = _estimate(asked, a, _nu(asked, a, w), w).item()
        if value < best:
            best, chosen = value, (a, w)
    return _improved(asked, chosen, start, end)


def _start(asked: Terms, v: Tensor) -> Tensor:
    """Multipliers in the order of what items add, more where a switch takes a long way.

    With one item alone, a = 2 nu t / |b|^2 is the best.
    """
    taken = (v[1:] + v[:1]) / 2
    moved = torch.outer(asked.centre, v[0]) + asked.items.T @ taken
    gain = (asked.items @ moved * taken).sum(1).abs() + asked.items.square().sum(1)
    far = asked.threshold.clamp_min(0)
    way = torch.maximum(asked.slope.norm(p=1 if asked.cube else 2, dim=1), far)
    start: Tensor = gain * far / way.square().clamp_min(TINY)
    return start


def _improved(
    asked: Terms, start: tuple[Tensor, Tensor], scale: Tensor, end: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Adam on the logarithms of a and nu, with v following: the last of it.

    nu moves as slowly as a does. The best nu of every v overshoots; and where v lags behind, the
    value is too small to choose a step by.
    """
    a, v = start
    used, count = scale > 0, len(a)
    a = torch.where(used, torch.maximum(a, 1e-3 * scale), 0.0)
    nu = _nu(asked, a, v)
    alike = 1 if asked.cube else len(nu)  # in a ball there is one nu
    logs = torch.cat([torch.where(used, a, 1.0).log(), nu[::alike].log()])
    mean, square = torch.zeros_like(logs), torch.zeros_like(logs)

    def opened(logs: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(used, logs[:count].exp(), 0.0), logs[count:].exp().repeat(alike)

    for step in range(1, _STEPS + 1):
        if time.monotonic() >= end:
            break
        with torch.enable_grad():
            free = logs.detach().requires_grad_()
            (slope,) = torch.autograd.grad(_estimate(asked, *opened(free), v), free)
        mean, square = 0.8 * mean + 0.2 * slope, 0.95 * square + 0.05 * slope**2
        size = (mean / (1 - 0.8**step)) / ((square / (1 - 0.95**step)).sqrt() + TINY)
        logs = logs - (_RATES[0] + (_RATES[1] - _RATES[0]) * step / _STEPS) * size
        v = _ascend(*_rows(asked, *opened(logs)), v, 3)
    a, nu = opened(logs)
    return a, nu, _ascend(*_rows(asked, a, nu), v, _LAST, _CARRIED[1])


def _proved(asked: Terms, a: Tensor, nu: Tensor, v: Tensor) -> float:
    """The dual value for these multipliers, with y made feasible and that proved.

    Infinity for multipliers that are none: the inequalities hold for a >= 0 and nu > 0 alone.
    """
    if not bool((a >= 0).all()) or not bool((nu > 0).all()):
        return math.inf
    rows, arrow = _rows(asked, a, nu)
    matrix = rows @ rows.T
    matrix[0, 1:] -= arrow
    matrix[1:, 0] -= arrow
    matrix = (matrix + matrix.T) / 2
    y = ((matrix @ v) * v).sum(1)
    weights = y.abs() + 0.01 * y.abs().mean() + TINY
    root = weights.rsqrt()
    scaled = (matrix - torch.diag(y)) * root * root.unsqueeze(1)
    try:
        lacking = torch.linalg.eigvalsh((scaled + scaled.T) / 2)[-1].item()
    except RuntimeError:  # no convergence
        return math.inf
    sizes = rows.square().sum(1)
    rounding = SLACK * (sizes.sum().item() + 2 * arrow.abs().sum().item())
    paid, room = (a * asked.threshold).sum().item() / 2, nu.sum().item()
    room = room if asked.cube else nu.max().item()
    margin = SLACK * ((a * asked.threshold).abs().sum().item() + room)
    for digits in range(11, 2, -1):
        above = y + weights * (max(lacking, 0.0) + 10.0**-digits)
        deficit = proved(torch.diag(above + rounding) - matrix)
        if deficit is not None:
            total = (above.sum() + len(above) * (rounding + deficit)).item()
            return float(total + SLACK * above.abs().sum().item() - paid + room + margin)
    return math.inf
