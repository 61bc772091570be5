"""Projected gradient descent on the prediction."""

from __future__ import annotations

from dataclasses import dataclass, field

from attribound.attacks.attack import SearchAttack
from attribound.attacks.engine import Keep, Search
from attribound.attacks.objectives import PredictionLoss
from attribound.attacks.steps import Ascend, InBall, Start
from attribound.values import NO_SETTING, register


@register("pgd")
@dataclass(frozen=True)
class PGD(SearchAttack):
    """The paper's l2 attack, and the usual one on predictions: it does not aim at attributions.

    Attributes:
        loss: ``cross_entropy``, ``kl`` (TRADES' inner loop) or ``margin``.
        steps: 20 in the paper.
        step_size: in the ball's norm; default 2.5 epsilon / steps.
        start: default: a random point of the ball.
        keep: default: the last iterate.
    """

    loss: str = "cross_entropy"
    steps: int = 20
    step_size: float | None = None
    start: Start = field(default_factory=InBall)
    keep: Keep = "last"
    seed: int = 0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    @property
    def search(self) -> Search:
        """Ascent on the loss."""
        objective, step = PredictionLoss(self.loss), Ascend(self.step_size)
        return Search(objective, step, (self.start,), self.keep, self.steps)
