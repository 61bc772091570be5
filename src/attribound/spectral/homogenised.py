"""A box that is not centred at zero, as a cube with one coordinate more."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tensors import dot, per_example
from attribound.operators import LinearOperator


@dataclass(frozen=True, eq=False)
class Homogenised(LinearOperator):
    """``[J Diag(half), J centre]`` on ``(batch, n + 1)``.

    The box is ``centre + half * w`` with w in the cube. On signs (w, t) the operator
    gives ``J (half * w + centre * t) = t J (half * t w + centre)``: up to its sign
    what J gives at a corner of the box, and every corner twice. A convex function is
    largest at corners, so that the norm of this operator from the cube is the largest
    ``|J d|`` of the box. A coordinate whose half-width is zero does no harm.

    Attributes:
        operator: J.
        half, centre: of the box, ``(batch, *features)``.
    """

    operator: LinearOperator
    half: Tensor
    centre: Tensor

    def __post_init__(self) -> None:
        """A product costs what the operator's costs."""
        object.__setattr__(self, "points", self.operator.points)

    @property
    def domain(self) -> Tensor:
        """Of one coordinate more than the box, flat."""
        return torch.nn.functional.pad(self.half.flatten(1), (0, 1))

    @property
    def range(self) -> Tensor:
        """As the operator's."""
        return self.operator.range

    def matvec(self, v: Tensor) -> Tensor:
        """``J (half * w + centre * t)`` for v = (w, t)."""
        inside = self.half * v[:, :-1].reshape(self.half.shape)
        return self.operator.matvec(inside + self.centre * per_example(v[:, -1], self.centre))

    def rmatvec(self, u: Tensor) -> Tensor:
        """``half * J^T u`` and ``centre . J^T u``."""
        back = self.operator.rmatvec(u)
        return torch.cat([(self.half * back).flatten(1), dot(self.centre, back).unsqueeze(1)], 1)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return Homogenised(self.operator.select(index), self.half[index], self.centre[index])


def homogenised(operator: LinearOperator, low: Tensor, high: Tensor) -> Homogenised:
    """The operator of the box from ``low`` to ``high``, refused unless these make one."""
    shape = tuple(operator.domain.shape)
    for name, end in (("low", low), ("high", high)):
        if tuple(end.shape) != shape or not torch.isfinite(end).all():
            raise InputError(
                name,
                expected=f"finite numbers of shape {shape}, one for each feature",
                got=f"shape {tuple(end.shape)}, finite: {bool(torch.isfinite(end).all())}",
                remedy="use the ends of the box as tensors like the input",
            )
    if (low > high).any():
        raise InputError(
            "box",
            expected="low at most high",
            got=f"low above high by up to {(low - high).max().item():.4g}",
            remedy="check that they are not interchanged",
        )
    low, high = low.to(operator.domain), high.to(operator.domain)
    return Homogenised(operator, (high - low) / 2, (high + low) / 2)


def corner(signs: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The corner of the box that signs ``(batch, n + 1)`` stand for, ``(batch, *features)``."""
    up = signs[:, :-1] * signs[:, -1:] > 0
    return torch.where(up.view_as(low), high, low)
