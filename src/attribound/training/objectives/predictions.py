"""Methods that look at predictions: cross-entropy, adversarial training, TRADES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.attacks.objectives import LOSSES, PredictionLoss
from attribound.attacks.objectives import Objective as Climbed
from attribound.attacks.steps import Nearby, Start
from attribound.basics.numbers import check_positive
from attribound.training.inner import Adversarial
from attribound.training.objective import Passes, Step, TrainingObjective
from attribound.values import register


@register("ce")
@dataclass(frozen=True)
class CE(TrainingObjective):
    """CE(x): the usual training, robust to nothing."""

    terms: ClassVar[tuple[str, ...]] = ("ce",)
    attack_passes: ClassVar[Passes] = Passes()
    loss_passes: ClassVar[Passes] = Passes(first=1)

    def attack(self, step: Step) -> Tensor:
        """The inputs as they are."""
        return step.x.detach()

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Cross-entropy at x."""
        return {"ce": cross_entropy(step.model(step.x), step.y)}


@register("at")
@dataclass(frozen=True)
class AT(Adversarial):
    """CE(x'), x' the end of PGD on cross-entropy from a random point of the ball.

    Adversarial training of Madry et al. (2018).

    Attributes:
        steps: 40 for MNIST, 20 for Fashion-MNIST, 10 for CIFAR-10 in the literature.
    """

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


@register("trades")
@dataclass(frozen=True)
class TRADES(Adversarial):
    """CE(x) + beta KL(p(x) || p(x')), x' the end of ascent on that KL from next to x.

    Zhang et al. (2019): accuracy traded against stability of the prediction.

    Attributes:
        beta: weight of the divergence; 6 for CIFAR-10, 1 to 6 for MNIST in the literature.
        steps: 40 for MNIST, 10 for CIFAR-10 there.
    """

    terms: ClassVar[tuple[str, ...]] = ("ce", "kl")
    loss_passes: ClassVar[Passes] = Passes(first=2)
    start: ClassVar[Start] = Nearby(1e-3)
    beta: float = 6.0

    def __post_init__(self) -> None:
        """Refuse a weight that is none."""
        super().__post_init__()
        check_positive("beta", self.beta, "use beta=6, or the objective 'ce' for none")

    def climbed(self, step: Step) -> Climbed:  # noqa: ARG002
        """The divergence."""
        return PredictionLoss("kl")

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Both terms; the divergence pulls on the clean prediction, too."""
        # Two batches, as the authors: in one, batch statistics would mix x and x'.
        clean, moved = step.model(step.x), step.model(attacked)
        divergence = LOSSES["kl"](moved, clean, step.y).mean()
        return {"ce": cross_entropy(clean, step.y), "kl": self.beta * divergence}

    @property
    def attack_passes(self) -> Passes:
        """A gradient a step, and the clean prediction once."""
        return Passes(first=self.steps, forward=1)
