"""IFIA, the iterative feature importance attack of Ghorbani, Abid and Zou (2019)."""

from __future__ import annotations

from dataclasses import dataclass, field

from attribound.attacks.attack import SearchAttack
from attribound.attacks.engine import Search
from attribound.attacks.measures import TopK
from attribound.attacks.objectives import MapObjective
from attribound.attacks.steps import Ascend, InBall, Start
from attribound.values import NO_SETTING, register


@register("ifia")
@dataclass(frozen=True)
class IFIA(SearchAttack):
    """The paper's l-infinity attack: change what looks important, keep the label.

    Of all iterates with the label of the clean input the best by the objective's
    measure is returned, else the clean input.

    Attributes:
        objective: :class:`TopK`, :class:`MassCentre` or :class:`Targeted`.
        steps: 200 in the paper.
        step_size: in the ball's norm; default 2.5 epsilon / steps.
        start: a random point of the ball, so that repeats differ; the authors start
            :class:`AtInput`.
    """

    objective: MapObjective = field(default_factory=TopK)
    steps: int = 200
    step_size: float | None = None
    start: Start = field(default_factory=InBall)
    seed: int = 0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    @property
    def search(self) -> Search:
        """Ascent on the objective, label kept."""
        step = Ascend(self.step_size)
        return Search(self.objective, step, (self.start,), "best_label_kept", self.steps)
