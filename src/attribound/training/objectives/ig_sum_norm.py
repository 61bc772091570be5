"""IG-SUM-NORM of Chen et al. (2019): adversarial training and IG-NORM in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import Objective as Climbed
from attribound.training.gradients import loss
from attribound.training.groups import Climb
from attribound.training.objectives.ig_norm import IGNorm
from attribound.training.passes import Passes
from attribound.training.step import Step


@dataclass(frozen=True)
class IGSumNorm(IGNorm):
    """CE(x') + weight |IG of the loss from x to x'|_1, x' the end of ascent on all of that.

    Attributes:
        weight: of the norm; 0.1 in the authors' code.
    """

    name: ClassVar[str] = "ig-sum-norm"
    terms: ClassVar[tuple[str, ...]] = ("ce_attacked", "ig_norm")
    weight: float = 0.1

    def climbed(self, step: Step) -> Climbed:
        """The whole objective."""

        def score(moved: Tensor, rows: slice) -> Tensor:
            change = self._norm(step, moved, rows, self.attack_ig_steps)
            return loss(step.model(moved), step.y[rows]) + self.weight * change

        return Climb(score, self.attack_ig_steps)

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms."""
        change = self._mean_norm(step, attacked)
        return {"ce_attacked": cross_entropy(step.model(attacked), step.y), "ig_norm": change}

    @property
    def attack_passes(self) -> Passes:
        """The loss at x' and all nodes at every step."""
        return super().attack_passes + Passes(first=self.steps)
