"""Balls of the p-norms, in the units of the features, cut by the range of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attribound.balls.ball import Ball, Enclosure, check_number, check_order, check_units
from attribound.balls.geometry import ends, project, settled, unit_maximiser, within
from attribound.balls.sampling import in_ball, on_sphere
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.values import register

if TYPE_CHECKING:
    from typing_extensions import Self


@register("lp")
@dataclass(frozen=True, eq=False, repr=False)
class LpBall(Ball):
    """All perturbations ``scale * d`` with the p-norm of d at most ``epsilon`` that keep a range.

    Attributes:
        epsilon: the radius.
        p: the order of the norm, from 1 to infinity.
        low, high: what a perturbed feature may be at least and at most, e.g. 0 and 1 for
            pixels; one number, or one a feature; None for no limit. Attacks keep to it; bounds
            use it for the cube (p = inf) and hold for the whole ball, and so within the range,
            otherwise.
        scale: the unit of each feature, of the shape of one example, or of the batch;
            0 freezes a feature. None: 1 for all.

    >>> LpBall(0.1, 3)
    LpBall(epsilon=0.1, p=3.0)
    """

    epsilon: float
    p: float
    low: float | Tensor | None = None
    high: float | Tensor | None = None
    scale: float | Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse a radius, an order, a range or a scale that makes no ball."""
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
        for name in ("low", "high", "scale"):
            if (end := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_units(name, end))
        low, high = self._range
        ends = (torch.as_tensor(end, dtype=torch.float64) for end in (low, high))
        if not torch.lt(*ends).all():
            raise InputError(
                "range",
                expected="low below high",
                got=f"low={self.low!r}, high={self.high!r}",
                remedy="use e.g. low=0, high=1 for pixels",
            )
        if self.scale is not None:
            scale = torch.as_tensor(self.scale)
            if not torch.isfinite(scale).all() or (scale < 0).any() or not (scale > 0).any():
                raise InputError(
                    "scale",
                    expected="finite numbers of 0 or more, not all of them 0",
                    got=f"from {scale.min().item():g} to {scale.max().item():g}",
                    remedy="give the unit of each feature, and 0 for those that can't change",
                )

    @property
    def name(self) -> str:
        """The norm, e.g. ``l2``."""
        return f"l{self.p:g}{'' if self.scale is None else ' scaled'}"

    @property
    def limited(self) -> bool:
        """Whether values of features have limits."""
        return self.low is not None or self.high is not None

    @property
    def _range(self) -> tuple[float | Tensor, float | Tensor]:
        low = -math.inf if self.low is None else self.low
        return low, math.inf if self.high is None else self.high

    @property
    def _key(self) -> tuple[object, ...]:
        ends = (*self._range, 1.0 if self.scale is None else self.scale)
        plain = (repr(end.tolist()) if isinstance(end, Tensor) else end for end in ends)
        return (self.epsilon, self.p, *plain)

    def __eq__(self, other: object) -> bool:
        if type(self) in _OWN and type(other) in _OWN:
            assert isinstance(other, LpBall)
            return self._key == other._key
        return super().__eq__(other)  # a subclass may be another set

    def __hash__(self) -> int:
        return hash(self._key) if type(self) in _OWN else super().__hash__()

    def __repr__(self) -> str:
        shown = [f"epsilon={self.epsilon!r}"]
        if type(self) is LpBall:
            shown.append(f"p={self.p!r}")
        ends = {"low": self.low, "high": self.high, "scale": self.scale}
        shown += [f"{name}={_shown(end)}" for name, end in ends.items() if end is not None]
        return f"{type(self).__name__}({', '.join(shown)})"

    def scaling(self, x: Tensor) -> Tensor | None:
        """The units of the features of ``x``; None if all are 1.

        A subclass that writes this alone is a ball of its own: all answers follow from it.
        """
        if self.scale is None:
            return None
        scale = torch.as_tensor(self.scale, dtype=x.dtype, device=x.device)
        if scale.dim() and scale.shape not in (x.shape, x.shape[1:]):
            raise InputError(
                "scale",
                expected=f"a number or shape {tuple(x.shape[1:])} or {tuple(x.shape)}",
                got=f"shape {tuple(scale.shape)}",
                remedy="give one unit a feature, for all examples or for each",
            )
        return scale.expand_as(x)

    def enclosing(self, x: Tensor) -> Enclosure:
        """Itself, without the range."""
        return Enclosure(self.p, self.epsilon, self.scaling(x))

    def steepest(self, slope: Tensor, x: Tensor) -> Tensor:
        """The perturbation of the unit ball with the largest inner product with ``slope``."""
        scale = self.scaling(x)
        if scale is None:
            return unit_maximiser(slope, self.p)
        return scale * unit_maximiser(scale * slope, self.p)

    def maximiser(self, slope: Tensor, x: Tensor) -> Tensor:
        """The perturbation of the ball with the largest inner product with ``slope``.

        On the sphere unless the slope is zero: then zero, except for the cube, where every
        corner is as good. The range is not looked at: project afterwards.
        """
        return self.epsilon * self.steepest(slope, x)

    def project(self, delta: Tensor, x: Tensor) -> Tensor:
        """The nearest perturbation in the ball, in its own units, then moved into the range.

        Clamping to the range only shortens components if ``x`` lies in it, so that the result
        is in both; and so is what ``x + delta``, as it is rounded, adds to ``x``.
        """
        scale = self.scaling(x)
        inside = project(_divided(delta, scale), self.epsilon, self.p)
        inside = inside if scale is None else scale * inside
        low, high = ends(*self._range, x)
        return settled(within(inside, self.epsilon, self.p, scale), x, low, high)

    def clip(self, delta: Tensor, x: Tensor) -> Tensor:
        """``delta`` with ``x + delta`` moved into the range."""
        if not self.limited:
            return delta
        low, high = ends(*self._range, x)
        moved = torch.minimum(torch.maximum(x + delta, low), high) - x
        scale = self.scaling(x)
        # What may not change does not change by rounding either.
        return moved if scale is None else torch.where(scale == 0, 0.0, moved)

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the most by which each feature of ``x`` may change, for any p."""
        low, high = ends(*self._range, x)
        scale = self.scaling(x)
        reach = torch.full_like(x, self.epsilon) if scale is None else self.epsilon * scale
        zero = torch.zeros_like(x)
        least = torch.minimum(torch.maximum(low - x, -reach), zero)
        return least, torch.maximum(torch.minimum(high - x, reach), zero)

    def at_radius(self, epsilon: float) -> Self:
        """The ball of the same norm, units and range with another radius."""
        return replace(self, epsilon=epsilon)

    def ranged(self, low: float, high: float) -> Self:
        """Cut at these values if it is a cube without limits: only there bounds use them."""
        if self.p == math.inf and not self.limited:
            return replace(self, low=low, high=high)
        return self

    def rows(self, x: Tensor, rows: slice | Tensor) -> Self:
        """The ball of some rows of the batch ``x``: units and limits per example are cut."""
        cut: dict[str, Any] = {
            name: end[rows]
            for name in ("low", "high", "scale")
            if isinstance(end := getattr(self, name), Tensor) and end.shape == x.shape
        }
        return replace(self, **cut) if cut else self

    def check_inside(self, x: Tensor) -> None:
        """Refuse inputs that are outside the range already, or in which nothing can change."""
        scale = self.scaling(x)
        if scale is not None and (still := ~(scale > 0).flatten(1).any(1)).any():
            raise InputError(
                "scale",
                expected="some feature above 0 in every example",
                got=f"none in examples {still.nonzero().flatten().tolist()}",
                remedy="leave out examples in which nothing can change",
            )
        low, high = ends(*self._range, x)
        if (x < low).any() or (x > high).any():
            raise InputError(
                "x",
                expected=f"values from {low.min():g} to {high.max():g}, the range of the ball",
                got=f"values from {x.min().item():.4g} to {x.max().item():.4g}",
                remedy="scale the inputs, or leave low and high out",
            )

    def contains(self, delta: Tensor, x: Tensor, tolerance: float = 1e-6) -> Tensor:
        """Whether each perturbation lies in the ball, range aside, up to a relative tolerance."""
        scale = self.scaling(x)
        still = x.new_ones(len(x), dtype=torch.bool)
        if scale is not None:
            still = ((scale > 0) | (delta == 0)).flatten(1).all(1)
        return still & (norm(_divided(delta, scale), self.p) <= self.epsilon * (1 + tolerance))

    def sample(self, x: Tensor, seed: int) -> Tensor:
        """A perturbation drawn uniformly from the volume of the ball, range aside."""
        return self._in_units(in_ball, x, seed)

    def sample_sphere(self, x: Tensor, seed: int) -> Tensor:
        """A random perturbation of norm epsilon, range aside: a corner of the cube."""
        return self._in_units(on_sphere, x, seed)

    def _in_units(self, draw: Callable[..., Tensor], x: Tensor, seed: int) -> Tensor:
        scale = self.scaling(x)
        if scale is None:
            return draw(x, self.p, seed, self.epsilon)
        return scale * draw(x, self.p, seed, self.epsilon, scale > 0)


@register("l2")
@dataclass(frozen=True, eq=False, repr=False)
class L2Ball(LpBall):
    """All perturbations of Euclidean norm at most ``epsilon``.

    >>> L2Ball(0.1) == LpBall(0.1, 2)
    True
    """

    p: float = field(default=2.0, init=False)


@register("linf")
@dataclass(frozen=True, eq=False, repr=False)
class LinfBall(LpBall):
    """All perturbations that change no feature by more than ``epsilon``.

    >>> LinfBall(0.1, low=0, high=1)
    LinfBall(epsilon=0.1, low=0.0, high=1.0)
    """

    p: float = field(default=math.inf, init=False)


#: Classes that are told apart by their numbers alone.
_OWN = (LpBall, L2Ball, LinfBall)


def _divided(delta: Tensor, scale: Tensor | None) -> Tensor:
    """``delta / scale``, zero where the scale is."""
    return (
        delta
        if scale is None
        else torch.where(scale > 0, delta / torch.where(scale > 0, scale, 1.0), 0.0)
    )


def _shown(end: float | Tensor) -> str:
    return repr(end) if isinstance(end, float) else f"tensor of shape {tuple(end.shape)}"
