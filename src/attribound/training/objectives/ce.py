"""Cross-entropy: training without an attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.training.objective import Objective
from attribound.training.passes import Passes
from attribound.training.step import Step


@dataclass(frozen=True)
class CE(Objective):
    """CE(x): the usual training, robust to nothing."""

    name: ClassVar[str] = "ce"
    terms: ClassVar[tuple[str, ...]] = ("ce",)
    attack_passes: ClassVar[Passes] = Passes()
    loss_passes: ClassVar[Passes] = Passes(first=1)

    def attack(self, step: Step) -> Tensor:
        """The inputs as they are."""
        return step.x.detach()

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Cross-entropy at x."""
        return {"ce": cross_entropy(step.model(step.x), step.y)}
