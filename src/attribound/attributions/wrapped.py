"""Attributions made of another one: what they ask it for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from attribound.attributions.base import Attribution, Model
from attribound.attributions.saliency import Saliency
from attribound.networks.classifier import Classifier
from attribound.networks.inputs import Target

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, eq=False)  # compared by settings, those of subclasses included
class Wrapped(Attribution):
    """A function of the map of another attribution, of the same model and labels.

    Attributes:
        base: the attribution inside.
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
        """Whose map it is made of."""
        return self.base.subject

    @property
    def crosses_kinks(self) -> bool:
        """As of the base."""
        return self.base.crosses_kinks

    def of(self, model: Model) -> Self:
        """The same of the attribution of ``model``."""
        return replace(self, base=self.base.of(model))

    def recipe(self) -> Self:
        """The same of no model."""
        return replace(self, base=self.base.recipe())

    def climbed(self) -> Attribution:
        """The same of what is climbed in place of the base."""
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
        """As many as the base needs: what its scores leave out, theirs leave out."""
        return self.base.steps_needed(x, target, self.base.revalue(x, target))
