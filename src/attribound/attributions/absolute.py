"""The absolute values of an attribution: what Captum's Saliency says unless asked otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.attributions.base import Linearization
from attribound.attributions.wrapped import Wrapped
from attribound.operators import LinearOperator
from attribound.values import register, to_text


@register("absolute")
@dataclass(frozen=True, eq=False)
class Absolute(Wrapped):
    """|g|, score by score.

    Two absolute values are no further apart than the signed ones, so every Euclidean bound of the
    signed map holds of it; its norm is the same, and so are the angles that follow. Its Jacobian
    diag(sign g) J is right where no score is zero.

    Attributes:
        base: the attribution with signs.

    >>> Absolute().name
    'absolute'
    """

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return to_text(self)

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        return self.base.revalue(x, target).abs()

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        inner = self.base.relinearize(x, target)
        jacobian = SignedJacobian(inner.value.sign(), inner.jacobian)
        return Linearization(inner.value.abs(), jacobian, target, inner.reservations)


@dataclass(frozen=True, eq=False)
class SignedJacobian(LinearOperator):
    """``diag(signs) J``, per example.

    Attributes:
        signs: of the scores, ``(batch, *scores)``.
        operator: J.
    """

    signs: Tensor
    operator: LinearOperator

    def __post_init__(self) -> None:
        """A product costs what the operator's costs."""
        object.__setattr__(self, "points", self.operator.points)

    @property
    def domain(self) -> Tensor:
        """As the operator's."""
        return self.operator.domain

    @property
    def range(self) -> Tensor:
        """As the operator's."""
        return self.operator.range

    def matvec(self, v: Tensor) -> Tensor:
        """The signs times ``J v``, per example."""
        return self.signs * self.operator.matvec(v)

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T`` times the signed ``u``, per example."""
        return self.operator.rmatvec(self.signs * u)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return SignedJacobian(self.signs[index], self.operator.select(index))
