"""What a set of perturbations is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attribound.balls.sampling import normal
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.operators import ColumnScaled, LinearOperator
from attribound.values import Value

if TYPE_CHECKING:
    from typing_extensions import Self


_TOLERANCE = 1e-4  # rounding of a projection


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A scaled p-ball: all ``scale * d`` with the p-norm of d at most ``epsilon``.

    Attributes:
        p: the order of the norm.
        epsilon: the radius.
        scale: of the shape of the inputs, ``(batch, *features)``; None for ones.
    """

    p: float
    epsilon: float
    scale: Tensor | None = None

    def scaled(self, jacobian: LinearOperator) -> LinearOperator:
        """``J Diag(scale)``: what J makes of the plain p-ball's points."""
        return jacobian if self.scale is None else ColumnScaled(jacobian, self.scale)

    def carried(self, point: Tensor) -> Tensor:
        """The perturbation that a point of the plain ball stands for."""
        return point if self.scale is None else self.scale * point


class Ball(Value, ABC):
    """A set of perturbations of an input, with a radius.

    It is convex and holds zero, and the set of t times the radius holds t times its
    perturbations.

    Attacks ask for ``project``, ``maximiser``, ``contains`` and samples; bounds for
    ``enclosing`` and, in other radii, ``at_radius``. What a bound can't use it refuses.

    Attributes:
        epsilon: its radius.
    """

    epsilon: float

    @property
    def name(self) -> str:
        """What balls of all radii like this one are called in tables."""
        return type(self).__name__

    @abstractmethod
    def project(self, delta: Tensor, x: Tensor) -> Tensor:
        """A perturbation of the set near ``delta``, for each example of ``x``."""

    @abstractmethod
    def maximiser(self, slope: Tensor, x: Tensor) -> Tensor:
        """The perturbation of the set with the largest inner product with ``slope``.

        Limits on the values of features need not be looked at: it is projected afterwards.
        """

    @abstractmethod
    def contains(self, delta: Tensor, x: Tensor, tolerance: float = 1e-6) -> Tensor:
        """Whether each perturbation is in the set, up to a relative tolerance, ``(batch,)``."""

    @abstractmethod
    def at_radius(self, epsilon: float) -> Self:
        """The same with another radius; larger ones hold smaller ones."""

    def enclosing(self, x: Tensor) -> Enclosure:  # noqa: ARG002
        """The smallest scaled p-ball known that holds the set: bounds speak of that.

        Raises:
            InputError: none is known.
        """
        raise InputError(
            f"ball {type(self).__name__}",
            expected="one that lies in a scaled p-ball, of which bounds speak",
            got="one that knows none",
            remedy="write its method enclosing, or only attack in it",
        )

    def steepest(self, slope: Tensor, x: Tensor) -> Tensor:
        """The maximiser in the ball of radius one: the direction of a step."""
        return self.maximiser(slope, x) / self.epsilon

    def clip(self, delta: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        """``delta`` of the set without limits on values, with ``x + delta`` inside these."""
        return delta

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the most by which each feature of ``x`` may change."""
        around = self.enclosing(x)
        reach = around.carried(x.new_full(x.shape, around.epsilon))
        return -reach, reach

    @property
    def limited(self) -> bool:
        """Whether values of features have limits."""
        return False

    def ranged(self, low: float, high: float) -> Self:  # noqa: ARG002
        """The same with values kept from ``low`` to ``high``, if bounds could use that."""
        return self

    def rows(self, x: Tensor, rows: slice | Tensor) -> Self:  # noqa: ARG002
        """The set for some rows of the batch ``x``; another one where it differs by example."""
        return self

    def check_inside(self, x: Tensor) -> None:
        """Refuse inputs around which the set makes no sense."""

    def sample(self, x: Tensor, seed: int) -> Tensor:
        """A random perturbation of the set, from the seed and the example alone."""
        return self.project(self.epsilon * normal(x, seed), x)

    def sample_sphere(self, x: Tensor, seed: int) -> Tensor:
        """A random perturbation at the border of the set."""
        return self.maximiser(normal(x, seed), x)


def check_ball(ball: object, x: Tensor) -> Ball:
    """``ball``, refused unless it is one around ``x``."""
    if not isinstance(ball, Ball):
        raise InputError(
            "ball",
            expected="a ball",
            got=repr(ball),
            remedy="use e.g. attribound.L2Ball(0.1) or attribound.LinfBall(8 / 255)",
        )
    ball.check_inside(x)
    return ball


def enclosure(ball: Ball, x: Tensor) -> Enclosure:
    """What bounds speak of in place of ``ball`` around ``x``.

    Attacks move where :meth:`Ball.project` lets them. In a ball of a user's own it is seen at
    random points that this lies in what :meth:`Ball.enclosing` says.

    Raises:
        InputError: it knows no scaled p-ball, or one that it doesn't lie in.
    """
    around = ball.enclosing(x)
    if type(ball).__module__.startswith(f"{__name__.partition('.')[0]}."):
        return around
    far = ball.project(3 * around.epsilon * normal(x, seed=0), x)
    scale = torch.ones_like(x) if around.scale is None else around.scale
    moved = ((scale == 0) & (far != 0)).flatten(1).any(1)
    plain = torch.where(scale > 0, far / torch.where(scale > 0, scale, 1.0), 0.0)
    if moved.any() or (norm(plain, around.p) > around.epsilon * (1 + _TOLERANCE)).any():
        raise InputError(
            f"ball {type(ball).__name__}",
            expected="perturbations that lie in what its method enclosing says",
            got="one outside, made by its method project",
            remedy="make the two agree: bounds speak of the first, attacks use the second",
        )
    return around


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
    if not isinstance(value, (bool, str)):
        with suppress(TypeError, ValueError):
            return float(value)
    remedy = "one radius serves the whole batch"
    raise InputError(name, expected="a number", got=repr(value), remedy=remedy)


def check_units(name: str, value: object) -> float | Tensor:
    """``value`` as a number or a tensor of them, refused if it is neither."""
    if isinstance(value, Tensor):
        return value
    with suppress(TypeError, ValueError, RuntimeError):  # of what holds no numbers
        made = torch.as_tensor(None if isinstance(value, bool) else value, dtype=torch.float64)
        return made if made.dim() else float(made)
    raise InputError(
        name,
        expected="a number, or a tensor with one for each feature",
        got=repr(value),
        remedy=f"use e.g. {name}=torch.ones_like(x[0])",
    )
