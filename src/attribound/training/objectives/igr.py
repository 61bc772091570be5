"""The integrated gradients regularizer of Wang and Kong (2022), on AT or TRADES."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from attribound.attributions import IntegratedGradients
from attribound.basics.numbers import check_positive
from attribound.networks.modes import eval_mode
from attribound.training.groups import mean_over_examples
from attribound.training.maps import check_recipe, cosine, explained
from attribound.training.objective import Passes, Step, TrainingObjective
from attribound.training.objectives.predictions import AT, TRADES
from attribound.values import register


@dataclass(frozen=True)
class IGR(TrainingObjective):
    """The base's loss + weight (1 - cos(IG(x), IG(x'))), x' as the base finds it.

    It is there for two bases: :class:`ATWithIGR` and :class:`TRADESWithIGR`.

    Attributes:
        base: the method regularised.
        weight: of the cosine distance; the paper states none.
        ig: which integrated gradients.
    """

    base: TrainingObjective
    weight: float = 1.0
    ig: IntegratedGradients = field(default_factory=lambda: IntegratedGradients(steps=5))

    def __post_init__(self) -> None:
        """Refuse a weight that is none."""
        check_positive("weight", self.weight, f"use weight=1, or {self.base.name!r} for none")
        check_recipe(self.ig)

    def attack(self, step: Step) -> Tensor:
        """The base's."""
        return self.base.attack(step)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """The base's terms, and the regularizer."""

        def term(rows: slice) -> Tensor:
            before, after = (
                explained(self.ig, step.model, z[rows], step.y[rows]) for z in (step.x, attacked)
            )
            return 1 - cosine(before, after)

        with eval_mode(step.model):
            distance = mean_over_examples(step.model, attacked, 2 * self.ig.steps, term)
        return {**self.base.losses(step, attacked), "igr": self.weight * distance}

    @property
    def attack_passes(self) -> Passes:
        """The base's."""
        return self.base.attack_passes

    @property
    def loss_passes(self) -> Passes:
        """The base's, and two attributions."""
        return self.base.loss_passes + Passes(second=2 * self.ig.steps)


@register("at+igr")
@dataclass(frozen=True)
class ATWithIGR(IGR):
    """Adversarial training with the regularizer."""

    terms: ClassVar[tuple[str, ...]] = (*AT.terms, "igr")
    base: AT = field(default_factory=AT)


@register("trades+igr")
@dataclass(frozen=True)
class TRADESWithIGR(IGR):
    """TRADES with the regularizer, the paper's best model."""

    terms: ClassVar[tuple[str, ...]] = (*TRADES.terms, "igr")
    base: TRADES = field(default_factory=TRADES)
