"""Adversarial attributional training of Ivankay et al. (2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import Objective as Climbed
from attribound.networks.modes import eval_mode
from attribound.training.checks import check_positive
from attribound.training.gradients import IG, loss
from attribound.training.groups import Climb, groups, mean_over_examples
from attribound.training.inner import Adversarial
from attribound.training.passes import Passes
from attribound.training.similarity import pearson
from attribound.training.step import Step


@dataclass(frozen=True)
class AdvAAT(Adversarial):
    """CE(x') + weight (1 - Pearson(IG(x), IG(x'))) / 2, x' the end of ascent on all of that.

    Trained on, the attribution of x moves with the parameters as that of x' does.

    Attributes:
        weight: of the distance of attributions; to be swept, for no value is published.
        ig: which integrated gradients.
    """

    name: ClassVar[str] = "advaat"
    terms: ClassVar[tuple[str, ...]] = ("ce_attacked", "attribution")
    weight: float = 1.0
    ig: IG = field(default_factory=IG)

    def __post_init__(self) -> None:
        """Refuse a weight that is none."""
        super().__post_init__()
        check_positive("weight", self.weight, "use weight=1, or the objective 'at' for none")

    def climbed(self, step: Step) -> Climbed:
        """The whole objective; the attribution of x is computed once."""
        clean = torch.cat(
            [
                self.ig(step.model, step.x[rows], step.y[rows], again=False).detach()
                for rows in groups(step.x, self.ig.steps)
            ]
        )

        def score(moved: Tensor, rows: slice) -> Tensor:
            after = self.ig(step.model, moved, step.y[rows])
            distance = (1 - pearson(clean[rows], after)) / 2
            return loss(step.model(moved), step.y[rows]) + self.weight * distance

        return Climb(score, self.ig.steps)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""

        def term(rows: slice) -> Tensor:
            before, after = (self.ig(step.model, z[rows], step.y[rows]) for z in (step.x, attacked))
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
