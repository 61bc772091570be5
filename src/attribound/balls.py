"""Perturbation balls: the set of perturbations an attacker may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.errors import InputError
from attribound.tensors import norm, per_example, unit


@dataclass(frozen=True, eq=False)
class LpBall:
    """All perturbations of p-norm at most ``epsilon``.

    >>> LpBall(0.1, 3)
    LpBall(epsilon=0.1, p=3.0)
    """

    epsilon: float
    p: float

    def __post_init__(self) -> None:
        """Refuse a radius or an order that makes no ball."""
        epsilon = check_number("epsilon", self.epsilon)
        if not (0 < epsilon < math.inf):
            raise InputError(
                "epsilon",
                expected="a finite radius above 0",
                got=repr(self.epsilon),
                remedy="give the radius in the units of the input",
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "p", check_order(self.p))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LpBall):
            return NotImplemented
        return (self.epsilon, self.p) == (other.epsilon, other.p)

    def __hash__(self) -> int:
        return hash((self.epsilon, self.p))

    def maximiser(self, slope: Tensor) -> Tensor:
        """The perturbation of the ball with the largest inner product with ``slope``.

        Shape ``(batch, *features)``. On the sphere unless the slope is zero: then
        zero, except for the cube, where every corner is as good.
        """
        return self.epsilon * unit_maximiser(slope, self.p)

    def contains(self, delta: Tensor, tolerance: float = 1e-6) -> Tensor:
        """Whether each perturbation lies in the ball, up to a relative tolerance."""
        return norm(delta, self.p) <= self.epsilon * (1 + tolerance)


@dataclass(frozen=True, eq=False)
class L2Ball(LpBall):
    """All perturbations of Euclidean norm at most ``epsilon``.

    >>> L2Ball(0.1) == LpBall(0.1, 2)
    True
    """

    p: float = field(default=2.0, init=False, repr=False)


@dataclass(frozen=True, eq=False)
class LinfBall(LpBall):
    """All perturbations that change no feature by more than ``epsilon``."""

    p: float = field(default=math.inf, init=False, repr=False)


def unit_maximiser(slope: Tensor, p: float) -> Tensor:
    """The point of the unit p-ball with the largest inner product with ``slope``."""
    if p == 2:
        return unit(slope)
    if p == math.inf:
        return torch.where(slope < 0, -1.0, 1.0).to(slope)
    if p == 1:
        flat = slope.flatten(1)
        largest = flat.abs().argmax(1, keepdim=True)
        point = torch.zeros_like(flat)
        return point.scatter(1, largest, flat.gather(1, largest).sign()).view_as(slope)
    # Equality in Hoelder's inequality: components proportional to |slope|^(q - 1), 1/p + 1/q = 1.
    peak = norm(slope, math.inf)
    scaled = slope / per_example(torch.where(peak > 0, peak, torch.ones_like(peak)), slope)
    point = scaled.sign() * scaled.abs() ** (1 / (p - 1))
    length = norm(point, p)
    return point / per_example(torch.where(length > 0, length, torch.ones_like(length)), point)


def check_order(p: float) -> float:
    """``p`` as a float, refused unless it is the order of a norm."""
    order = check_number("p", p)
    if not order >= 1:
        raise InputError(
            "p", expected="the order of a norm, 1 <= p <= inf", got=repr(p), remedy="use p >= 1"
        )
    return order


def check_number(name: str, value: float) -> float:
    """``value`` as a float, refused unless it is a number."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            name, expected="a number", got=repr(value), remedy="one radius serves the whole batch"
        ) from error
