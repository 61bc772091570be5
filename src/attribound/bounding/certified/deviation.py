"""Both bounds of one example, from the expansions at the points of its path.

With A the mean Jacobian, R the mean remainder and D the displacement, the attribution
moves by D (A delta + R(delta) - R(0)) + delta (g + A delta + R(delta)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, up
from attribound.bounding.certified.expanding import (
    Expanded,
    expansions,
    expansions_from_both_sides,
    is_large,
)
from attribound.bounding.certified.expansion import dual_order, row_norms
from attribound.bounding.certified.network import Network
from attribound.bounding.certified.path import GradientPath
from attribound.bounding.certified.quadratic import Form
from attribound.bounding.certified.taylor import TaylorRemainder, componentwise, constant, remainder

_ROUNDS = 3
#: A bound of so many times the map and what it moves to first order says nothing.
_NOTHING = 1000.0


@dataclass(frozen=True, eq=False)
class PathMean:
    """Sums over the path of one example; vectors ``(1, d)``, upper values unless said.

    Attributes:
        gradient, jacobian: computed g and A (transposed).
        gradient_size: sum of the absolute values of g's parts, for its rounding.
        jacobian_error: of each component of A, in the dual norm.
        remainder: of R, times the displacement; forms in the perturbation of x.
        still: of R(0), times the displacement.
        component: of each component of R.
        reach, still_reach: of each component of g, by intervals, in the ball and at x.
    """

    gradient: Tensor
    gradient_size: Tensor
    jacobian: Tensor
    jacobian_error: Tensor
    remainder: TaylorRemainder
    still: float
    component: Tensor
    reach: Tensor
    still_reach: Tensor

    @classmethod
    def zero(cls, size: int) -> PathMean:
        """Of no points."""
        zeros = torch.zeros(1, size, dtype=torch.float64)
        square = torch.zeros(size, size, dtype=torch.float64)
        rest = TaylorRemainder(Form.zero(size), Form.zero(size), 0.0, 0.0)
        return cls(zeros, zeros, square, zeros, rest, 0.0, zeros, zeros, zeros)


def deviations(
    network: Network, path: GradientPath, target: int, ball: tuple[float, float], widest: int
) -> tuple[float, float]:
    """Upper values of the deviation: by the Taylor model, and by interval propagation.

    The first is infinite where it was not worth its time.
    """
    if is_large(network, path):
        interval = intervals_alone(network, path, target, ball, widest)
        if interval is not None:
            return math.inf, interval
    return of_expansions(path, expansions(network, path, target, ball, widest), ball)


def intervals_alone(
    network: Network, path: GradientPath, target: int, ball: tuple[float, float], widest: int
) -> float | None:
    """The bound by interval propagation, if products of layers can't make it say anything.

    So it is where both bounds, with the least that these products could be, are still a thousand
    times as large as the map and as what it moves to first order.
    """
    weights = up(path.displacement.abs())
    above = below = PathMean.zero(path.x.shape[1])
    third = 0.0
    every = expansions_from_both_sides(network, path, target, ball, widest)
    for (node, weight, _), (made, least) in zip(path.points(), every, strict=True):
        expansion, _, still = made
        third += abs(weight) * constant(expansion, least, weights)
        above = _add(above, _by_intervals(made), weight, node)
        below = _add(below, _by_intervals((expansion, least, still)), weight, node)
    moved = _euclidean(path, ball) * (above.jacobian * path.displacement).norm()
    size = (path.displacement * above.gradient).norm() + moved
    if min(third, _interval(path, below, ball)) > _NOTHING * size.item():
        return _interval(path, above, ball)
    return None


def of_expansions(
    path: GradientPath, made: Iterable[Expanded], ball: tuple[float, float]
) -> tuple[float, float]:
    """The same from expansions at the points of the path."""
    epsilon, p = ball
    mean = average(path, made, p)
    moved = _moving_factor(path, mean, ball) if path.multiplied else 0.0
    taylor = first_and_second_order(path, mean, epsilon, p) + moved
    return taylor * (1 + SLACK), _interval(path, mean, ball)


def _interval(path: GradientPath, mean: PathMean, ball: tuple[float, float]) -> float:
    """Upper value of the deviation by interval propagation."""
    shift = up(path.displacement.abs() * (mean.reach + mean.still_reach)).norm()
    moved = 0.0
    if path.multiplied:
        whole = up(mean.gradient_size + mean.reach)
        moved = _product(up(whole.norm()).item(), whole.max().item(), path, ball)
    return (up(shift).item() + moved) * (1 + SLACK)


def _product(length: float, largest: float, path: GradientPath, ball: tuple[float, float]) -> float:
    """Upper value of |delta w|_2, which is <= |delta|_inf |w|_2 and <= |delta|_2 |w|_inf."""
    return min(ball[0] * length, _euclidean(path, ball) * largest) * (1 + SLACK)


def _euclidean(path: GradientPath, ball: tuple[float, float]) -> float:
    """The radius of the l2 ball around the p-ball."""
    epsilon, p = ball
    return epsilon * float(path.x.shape[1] ** max(0.0, 0.5 - 1 / p))


def average(path: GradientPath, made: Iterable[Expanded], p: float) -> PathMean:
    """Sum what the points of the path give; each is forgotten after the next has come."""
    weights = up(path.displacement.abs())
    total = PathMean.zero(path.x.shape[1])
    for (node, weight, _), own in zip(path.points(), made, strict=True):
        total = _add(total, _at(path, own, p, weights), weight, node)
    return total


def _at(path: GradientPath, made: Expanded, p: float, weights: Tensor) -> PathMean:
    expansion, inside, still = made
    component = componentwise(expansion, inside) if path.multiplied else torch.zeros_like(path.x)
    return PathMean(
        expansion.gradient,
        expansion.gradient.abs(),
        expansion.jacobian,
        expansion.jacobian_error + 4 * SLACK * expansion.jacobian_norm,
        remainder(expansion, inside, weights, p),
        remainder(expansion, still, weights, p).constant,
        component,
        inside.gradient_reach,
        still.gradient_reach,
    )


def _by_intervals(made: Expanded) -> PathMean:
    expansion, inside, still = made
    return replace(
        PathMean.zero(expansion.gradient.shape[1]),
        gradient=expansion.gradient,
        gradient_size=expansion.gradient.abs(),
        jacobian=expansion.jacobian,
        reach=inside.gradient_reach,
        still_reach=still.gradient_reach,
    )


def _add(total: PathMean, part: PathMean, weight: float, node: float) -> PathMean:
    size = abs(weight)
    old, new = total.remainder, part.remainder
    return PathMean(
        total.gradient + weight * part.gradient,
        total.gradient_size + size * part.gradient_size,
        total.jacobian + weight * node * part.jacobian,
        total.jacobian_error + size * node * part.jacobian_error,
        TaylorRemainder(
            old.quadratic + size * node**2 * new.quadratic,
            old.cross + size * node**2 * new.cross,
            old.linear + size * new.linear,
            old.constant + size * new.constant,
        ),
        total.still + size * part.still,
        total.component + size * part.component,
        total.reach + size * part.reach,
        total.still_reach + size * part.still_reach,
    )


def first_and_second_order(path: GradientPath, mean: PathMean, epsilon: float, p: float) -> float:
    """Upper value of |D A delta + g delta| + |D (R(delta) - R(0))| over the ball, jointly.

    |A delta| <= c / 2 + |A delta|^2 / (2 c) for every c > 0 makes one quadratic form of
    both orders: they need not be largest in the same direction. c and theta are chosen
    by estimates, the form is bounded by proof.
    """
    rest = mean.remainder
    rows = mean.jacobian * path.displacement
    error = up(path.displacement.abs() * mean.jacobian_error)
    if path.multiplied:
        rows = rows + torch.diag(mean.gradient[0])
        error = error + 4 * SLACK * mean.gradient_size
    margin = epsilon * up(error.norm()).item() + rest.constant + mean.still
    slope = Form.of(rows, torch.ones(rows.shape[1], dtype=torch.float64), p)
    if slope.mass + rest.quadratic.mass + rest.cross.mass <= TINY or not math.isfinite(slope.mass):
        return (epsilon * math.sqrt(slope.mass) + rest.linear + margin) * (1 + SLACK)
    directions = slope.worst(p)
    theta = 1.0
    total = slope
    for _ in range(_ROUNDS):
        c = max(epsilon * math.sqrt(max(slope.at(directions), 0.0)), 1e-100)
        spread = epsilon**2 * rest.cross.at(directions)
        theta = math.sqrt(rest.linear / spread) if spread > 0 and rest.linear > 0 else 1.0
        theta = min(max(theta, 1e-6), 1e6)
        total = (1 / (2 * c)) * slope + rest.quadratic + (theta / 2) * rest.cross
        directions = total.worst(p, directions)
    curved = epsilon**2 * total.maximum(p) + c / 2 + rest.linear / (2 * theta)
    return (curved + margin) * (1 + SLACK)


def _moving_factor(path: GradientPath, mean: PathMean, ball: tuple[float, float]) -> float:
    """Upper value of |delta (A delta + R(delta))|."""
    epsilon, p = ball
    size = path.x.shape[1]
    norms = row_norms(mean.jacobian, dual_order(p)) + mean.jacobian_error
    moved = up(epsilon * norms + mean.component)
    spectral = Form.of(mean.jacobian, torch.ones(size, dtype=torch.float64), p).maximum(p)
    error = up(mean.jacobian_error.norm() * epsilon + mean.component.norm()).item()
    by_size = min(epsilon * math.sqrt(spectral) + error, up(moved.norm()).item())
    return _product(by_size, moved.max().item(), path, ball)
