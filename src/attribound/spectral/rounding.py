"""Points of the p-ball where |J d|_2 is large: roundings of the relaxation, then ascent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from attribound.balls import unit_maximiser
from attribound.basics.tensors import norm, per_example
from attribound.operators import LinearOperator

#: Steps of the ascent; its starts are local optima already, or nearly.
_ASCENTS = 2


@dataclass(frozen=True, eq=False)
class Attained:
    """A point of norm at most one and what it attains.

    Attributes:
        point: ``(batch, *features)``.
        image: ``J point``.
        value: its Euclidean norm.
        products: operator products spent on each example.
    """

    point: Tensor
    image: Tensor
    value: Tensor
    products: int

    def or_better(self, other: Attained) -> Attained:
        """The better of two for each example; both have been paid for."""
        better = other.value > self.value

        def choose(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(per_example(better, a), b, a)

        return Attained(
            choose(self.point, other.point),
            choose(self.image, other.image),
            torch.maximum(self.value, other.value),
            self.products + other.products,
        )


def attained(operator: LinearOperator, point: Tensor) -> Attained:
    """What ``point``, ``(batch, n)`` or ``(batch, *features)``, attains: one product."""
    point = point.reshape(operator.domain.shape)
    image = operator.matvec(point)
    return Attained(point, image, norm(image), 1)


def best_of(operator: LinearOperator, points: Tensor) -> Attained:
    """The best of the points ``(batch, k, n)`` for each example: a product each."""
    return reduce(Attained.or_better, (attained(operator, point) for point in points.unbind(1)))


def hyperplanes(product: Tensor, directions: Tensor, p: float) -> Tensor:
    """Points ``(batch, k, n)`` furthest along P V, ``(batch, rank, n)``, times ``directions``.

    With normal directions ``(k, rank)`` and p = inf these are the signs of V along random
    hyperplanes, whose mean of ``|J d|^2`` is at least 2/pi of the relaxation's; for
    other p they are one step of ascent from V along the direction.
    """
    slopes = directions.to(product) @ product
    return unit_maximiser(slopes.flatten(0, 1), p).view_as(slopes)


def ascend(operator: LinearOperator, start: Attained, p: float) -> Attained:
    """``d <- maximiser(J^T J d)`` from ``start``: the value never falls; two products a step."""
    best = start
    for _ in range(_ASCENTS):
        slope = operator.rmatvec(best.image)
        moved = attained(operator, unit_maximiser(slope, p))
        # Never worse, rounding aside. The slope was a product, too.
        best = best.or_better(replace(moved, products=2))
    return best
