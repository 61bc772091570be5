"""The absolute values of an attribution: what Captum's Saliency says unless asked otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from attribound.attributions.base import Attribution, Linearization, Model
from attribound.attributions.saliency import Saliency
from attribound.networks.classifier import Classifier
from attribound.networks.inputs import Target
from attribound.operators import LinearOperator
from attribound.values import register, to_text

if TYPE_CHECKING:
    from typing_extensions import Self


@register("absolute")
@dataclass(frozen=True, eq=False)
class Absolute(Attribution):
    """|g|, score by score.

    Two absolute values are no further apart than the signed ones, so every Euclidean bound of the
    signed map holds of it; its norm is the same, and so are the angles that follow. Its Jacobian
    diag(sign g) J is right where no score is zero.

    Attributes:
        base: the attribution with signs.

    >>> Absolute(Saliency()).name
    'absolute'
    """

    base: Attribution = field(default_factory=Saliency)

    def __post_init__(self) -> None:
        """As many points as the base."""
        object.__setattr__(self, "points", self.base.points)

    @property
    def classifier(self) -> Classifier | None:
        """The model behind it, if known."""
        return self.base.classifier

    @property
    def subject(self) -> str:
        """Whose map it is."""
        return self.base.subject

    @property
    def crosses_kinks(self) -> bool:
        """As of the base."""
        return self.base.crosses_kinks

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return to_text(self)

    def of(self, model: Model) -> Self:
        """The absolute values of the attribution of ``model``."""
        return replace(self, base=self.base.of(model))

    def recipe(self) -> Self:
        """The same of no model."""
        return replace(self, base=self.base.recipe())

    def climbed(self) -> Attribution:
        """Absolute values of what is climbed in place of the base."""
        return replace(self, base=self.base.climbed())

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        return self.base.targets(x, target)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        return self.base.examples_at_once(x)

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """As the base does."""
        self.base.check(x, smooth=smooth)

    def rows(self, x: Tensor, rows: slice | Tensor) -> Attribution:
        """The same for some rows of the batch ``x``."""
        own = self.base.rows(x, rows)
        return self if own is self.base else replace(self, base=own)

    def steps_needed(self, x: Tensor, target: Tensor, scores: Tensor) -> Tensor | None:  # noqa: ARG002
        """As many as the base needs."""
        return self.base.steps_needed(x, target, self.base.revalue(x, target))

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
