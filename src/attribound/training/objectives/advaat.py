"""Adversarial attributional training of Ivankay et al. (2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import Objective as Climbed
from attribound.attributions import IntegratedGradients
from attribound.basics.numbers import check_positive
from attribound.networks.modes import eval_mode
from attribound.training.groups import GroupedScore, groups, mean_over_examples
from attribound.training.inner import Adversarial
from attribound.training.maps import check_recipe, explained, loss, pearson
from attribound.training.objective import Passes, Step
from attribound.values import register


@register("advaat")
@dataclass(frozen=True)
class AdvAAT(Adversarial):
    """CE(x') + weight (1 - Pearson(IG(x), IG(x'))) / 2, x' the end of ascent on all of that.

    Trained on, the attribution of x moves with the parameters as that of x' does.

    Attributes:
        weight: of the distance of attributions; to be swept, for no value is published.
        ig: which integrated gradients.
    """

    terms: ClassVar[tuple[str, ...]] = ("ce_attacked", "attribution")
    weight: float = 1.0
    ig: IntegratedGradients = field(default_factory=lambda: IntegratedGradients(steps=5))

    def __post_init__(self) -> None:
        """Refuse a weight that is none."""
        super().__post_init__()
        check_positive("weight", self.weight, "use weight=1, or the objective 'at' for none")
        check_recipe(self.ig)

    def climbed(self, step: Step) -> Climbed:
        """The whole objective; the attribution of x is computed once."""
        clean = torch.cat(
            [
                explained(self.ig, step.model, step.x[rows], step.y[rows], again=False).detach()
                for rows in groups(step.x, self.ig.steps)
            ]
        )

        def score(moved: Tensor, rows: slice) -> Tensor:
            after = explained(self.ig, step.model, moved, step.y[rows])
            distance = (1 - pearson(clean[rows], after)) / 2
            return loss(step.model(moved), step.y[rows]) + self.weight * distance

        return GroupedScore(score, self.ig.steps)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""

        def term(rows: slice) -> Tensor:
            before, after = (
                explained(self.ig, step.model, z[rows], step.y[rows]) for z in (step.x, attacked)
            )
            return (1 - pearson(before, after)) / 2

        with eval_mode(step.model):
            distance = mean_over_examples(step.model, attacked, 2 * self.ig.steps, term)
        return {
            "ce_attacked": cross_entropy(step.model(attacked), step.y),
            "attribution": self.weight * distance,
        }

    @property
    def attack_passes(self) -> Passes:
        """The attribution of x; at every step the loss and the attribution of x'."""
        at_each = Passes(first=1, second=self.ig.steps)
        return Passes(first=self.ig.steps) + at_each * self.steps

    @property
    def loss_passes(self) -> Passes:
        """The prediction at x', and two attributions."""
        return Passes(first=1, second=2 * self.ig.steps)
