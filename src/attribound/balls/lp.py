"""Perturbation balls: the set of perturbations an attacker may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tensors import norm, per_example, unit

_BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class LpBall:
    """All perturbations of p-norm at most ``epsilon`` that keep inputs in a range.

    Attributes:
        epsilon: the radius.
        p: the order of the norm, from 1 to infinity.
        low, high: what a perturbed feature may be at least and at most, e.g. 0 and 1 for
            pixels; None for no limit. Attacks keep to it; bounds use it for the cube
            (p = inf) and hold for the whole ball, and so within the range, otherwise.

    >>> LpBall(0.1, 3)
    LpBall(epsilon=0.1, p=3.0)
    """

    epsilon: float
    p: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse a radius, an order or a range that makes no ball."""
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
        low, high = self._range
        if not low < high:
            raise InputError(
                "range",
                expected="low below high",
                got=f"low={self.low!r}, high={self.high!r}",
                remedy="use e.g. low=0, high=1 for pixels",
            )

    @property
    def _range(self) -> tuple[float, float]:
        low = -math.inf if self.low is None else check_number("low", self.low)
        high = math.inf if self.high is None else check_number("high", self.high)
        return low, high

    @property
    def _key(self) -> tuple[float, ...]:
        return (self.epsilon, self.p, *self._range)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, LpBall) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        shown = [f"epsilon={self.epsilon!r}"]
        if type(self) is LpBall:
            shown.append(f"p={self.p!r}")
        ends = {"low": self.low, "high": self.high}
        shown += [f"{name}={end!r}" for name, end in ends.items() if end is not None]
        return f"{type(self).__name__}({', '.join(shown)})"

    def maximiser(self, slope: Tensor) -> Tensor:
        """The perturbation of the ball with the largest inner product with ``slope``.

        Shape ``(batch, *features)``. On the sphere unless the slope is zero: then
        zero, except for the cube, where every corner is as good. The range is not
        looked at: project afterwards.
        """
        return self.epsilon * unit_maximiser(slope, self.p)

    def project(self, delta: Tensor, x: Tensor) -> Tensor:
        """The nearest perturbation in the norm ball, then moved into the range around ``x``.

        Clamping to the range only shortens components if ``x`` lies in it, so that
        the result is in both.
        """
        return self.clip(project(delta, self.epsilon, self.p), x)

    def clip(self, delta: Tensor, x: Tensor) -> Tensor:
        """``delta`` with ``x + delta`` moved into the range."""
        low, high = self._range
        return delta if (low, high) == (-math.inf, math.inf) else (x + delta).clamp(low, high) - x

    def box(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the most by which each feature of ``x`` may change, for any p."""
        low, high = self._range
        return (low - x).clamp(-self.epsilon, 0.0), (high - x).clamp(0.0, self.epsilon)

    def at_radius(self, epsilon: float) -> LpBall:
        """The ball of the same norm and range with another radius."""
        return replace(self, epsilon=epsilon)

    def check_inside(self, x: Tensor) -> None:
        """Refuse inputs that are outside the range to begin with."""
        low, high = self._range
        if x.min() < low or x.max() > high:
            raise InputError(
                "x",
                expected=f"values from {low:g} to {high:g}, the range of the ball",
                got=f"values from {x.min().item():.4g} to {x.max().item():.4g}",
                remedy="scale the inputs, or leave low and high out",
            )

    def contains(self, delta: Tensor, tolerance: float = 1e-6) -> Tensor:
        """Whether each perturbation lies in the norm ball, up to a relative tolerance."""
        return norm(delta, self.p) <= self.epsilon * (1 + tolerance)


@dataclass(frozen=True, eq=False, repr=False)
class L2Ball(LpBall):
    """All perturbations of Euclidean norm at most ``epsilon``.

    >>> L2Ball(0.1) == LpBall(0.1, 2)
    True
    """

    p: float = field(default=2.0, init=False)


@dataclass(frozen=True, eq=False, repr=False)
class LinfBall(LpBall):
    """All perturbations that change no feature by more than ``epsilon``.

    >>> LinfBall(0.1, low=0, high=1)
    LinfBall(epsilon=0.1, low=0, high=1)
    """

    p: float = field(default=math.inf, init=False)


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


def project(delta: Tensor, radius: float, p: float) -> Tensor:
    """The point of the p-ball nearest to each example of ``delta`` in Euclidean distance."""
    if p == math.inf:
        return delta.clamp(-radius, radius)
    length = norm(delta, p)
    outside = length > radius
    if p == 2:
        shrunk = delta * per_example(
            radius / torch.where(outside, length, torch.ones_like(length)), delta
        )
    elif p == 1:
        shrunk = _soft_threshold(delta, radius)
    else:
        shrunk = _project_by_multiplier(delta, radius, p)
    return torch.where(per_example(outside, delta), shrunk, delta)


def _soft_threshold(delta: Tensor, radius: float) -> Tensor:
    """Nearest point of the l1 ball: all components shrink by the same amount, down to zero."""
    size = delta.flatten(1).abs()
    ordered = size.sort(1, descending=True).values
    count = torch.arange(1, size.shape[1] + 1, device=delta.device)
    excess = (ordered.cumsum(1) - radius) / count
    last = (ordered > excess).sum(1, keepdim=True) - 1
    threshold = excess.gather(1, last.clamp_min(0)).clamp_min(0)
    shrunk: Tensor = delta.flatten(1).sign() * (size - threshold).clamp_min(0)
    return shrunk.view_as(delta)


def _project_by_multiplier(delta: Tensor, radius: float, p: float) -> Tensor:
    """Nearest point of another p-ball: t + mu t^(p-1) = |delta| per component, mu by bisection.

    Nearly: the inner equation is solved by bisection, too, and the result scaled onto
    the sphere, so that it is never outside.
    """
    size = delta.flatten(1).abs().double()

    def components(mu: Tensor) -> Tensor:
        low, high = torch.zeros_like(size), size
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            above = middle + mu * middle ** (p - 1) > size
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return high

    low = torch.zeros(len(size), 1, dtype=size.dtype, device=size.device)
    # At mu = |delta|_q / radius^(p-1) with 1/p + 1/q = 1 the point is inside.
    high = torch.linalg.vector_norm(size, p / (p - 1), dim=1, keepdim=True) / radius ** (p - 1)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        length = torch.linalg.vector_norm(components(middle), p, dim=1, keepdim=True)
        outside = length > radius
        low, high = torch.where(outside, middle, low), torch.where(outside, high, middle)
    point = components(high)
    length = torch.linalg.vector_norm(point, p, dim=1, keepdim=True).clamp_min(radius)
    scaled: Tensor = delta.flatten(1).sign() * (point * radius / length).to(delta)
    return scaled.view_as(delta)


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
