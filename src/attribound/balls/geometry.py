"""The geometry of p-balls: where they are largest along a slope, and their nearest points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tensors import norm, per_example, unit

_BISECTIONS = 40


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


def within(delta: Tensor, radius: float, p: float, scale: Tensor | None) -> Tensor:
    """``delta`` shortened where rounding left it outside the ball, as float64 measures it.

    ``scale`` has the units of the features, which the norm counts in.
    """
    exact = delta.double()
    units = torch.ones_like(exact) if scale is None else scale.double()
    if p == math.inf:
        limit = towards_zero(radius * units, delta.dtype)
        return torch.minimum(torch.maximum(delta, -limit), limit)
    # Room for the roundings of the norm in float64, and of the product with the factor below.
    reach, room = radius * (1 - 2.0**-46), 4 * torch.finfo(delta.dtype).eps
    plain = torch.where(units > 0, exact / torch.where(units > 0, units, 1.0), 0.0)
    length = norm(plain, p)
    factor = torch.where(length > reach, (1 - room) * reach / length, 1.0)
    return delta * per_example(factor, delta).to(delta.dtype)


def ends(low: float | Tensor, high: float | Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What features may be at least and at most, in the numbers of ``x``.

    Not by way of float32, which a number of Python becomes by itself: there .9 is another one.
    """
    both = tuple(torch.as_tensor(end, dtype=x.dtype, device=x.device) for end in (low, high))
    for name, limit in zip(("low", "high"), both, strict=True):
        sizes = zip(reversed(limit.shape), reversed(x.shape), strict=False)
        if limit.dim() > x.dim() or any(size not in (1, wanted) for size, wanted in sizes):
            raise InputError(
                name,
                expected=f"a number or shape {tuple(x.shape[1:])} or {tuple(x.shape)}",
                got=f"shape {tuple(limit.shape)}",
                remedy="give one limit a feature, for all examples or for each",
            )
    return both[0], both[1]


def settled(delta: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """``delta`` such that neither it nor what ``x + delta`` adds to ``x`` is larger than it was.

    Rounding ``x + delta`` to the nearest number may go further than ``delta``, which at tiny
    radii is much of the radius. Here it goes to the next number towards ``x``, inside ``low`` and
    ``high`` if ``x`` is; what is between two numbers is rounded to what is between these.
    """
    point, beyond = _sum(x, delta)
    point = torch.where(beyond * delta < 0, torch.nextafter(point, x), point)
    point = torch.minimum(torch.maximum(point, low), high)
    step, left = _sum(point, -x)
    return torch.where(left * step < 0, torch.nextafter(step, torch.zeros_like(step)), step)


def _sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum and what the exact one has beyond it (Knuth's TwoSum)."""
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def towards_zero(value: Tensor, dtype: torch.dtype) -> Tensor:
    """``value`` in float64 as numbers of ``dtype`` that are no larger in size."""
    cast = value.to(dtype)
    smaller = torch.nextafter(cast, torch.zeros_like(cast))
    return torch.where(cast.double().abs() > value.abs(), smaller, cast)


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
