"""Adversarial training of Madry et al. (2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import Objective as Climbed
from attribound.attacks.objectives import PredictionLoss
from attribound.training.inner import Adversarial
from attribound.training.passes import Passes
from attribound.training.step import Step


@dataclass(frozen=True)
class AT(Adversarial):
    """CE(x'), x' the end of PGD on cross-entropy from a random point of the ball.

    Attributes:
        steps: 40 for MNIST, 20 for Fashion-MNIST, 10 for CIFAR-10 in the literature.
    """

    name: ClassVar[str] = "at"
    terms: ClassVar[tuple[str, ...]] = ("ce_attacked",)
    loss_passes: ClassVar[Passes] = Passes(first=1)
    steps: int = 20

    def climbed(self, step: Step) -> Climbed:  # noqa: ARG002
        """Cross-entropy."""
        return PredictionLoss("cross_entropy")

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Cross-entropy at x'."""
        return {"ce_attacked": cross_entropy(step.model(attacked), step.y)}

    @property
    def attack_passes(self) -> Passes:
        """A gradient a step."""
        return Passes(first=self.steps)
