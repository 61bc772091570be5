"""Attack the attribution itself: ascent on its deviation or angle."""

from __future__ import annotations

from dataclasses import dataclass, field

from attribound.attacks.attack import SearchAttack
from attribound.attacks.engine import Keep, Search
from attribound.attacks.measures import Distance
from attribound.attacks.objectives import MapObjective
from attribound.attacks.steps import InBall, Jump, LinearOptimum, Start, StepRule
from attribound.basics.numbers import check_whole, refuse_other
from attribound.values import NO_SETTING, register


@register("ascent")
@dataclass(frozen=True)
class AttributionAscent(SearchAttack):
    """The honest test of a bound: climb |g(x + delta) - g(x)| from the linearised optimum.

    By default without a step size: each step goes to the point of the ball that is best
    for the local slope ``J(x + delta)^T (g(x + delta) - g(x))``.

    Attributes:
        objective: :class:`Distance` or :class:`Angle`.
        steps: from each start.
        step: :class:`Jump`, or :class:`Ascend` for projected gradients.
        random_starts: besides plus and minus the top singular vector.
        keep: the ``best`` iterate; ``best_label_kept`` to keep the label, too.
    """

    objective: MapObjective = field(default_factory=Distance)
    steps: int = 12
    step: StepRule = field(default_factory=Jump)
    random_starts: int = 0
    keep: Keep = "best"
    seed: int = 0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Refuse starts that are none."""
        check_whole("random_starts", self.random_starts, 0, "use e.g. random_starts=8")
        super().__post_init__()

    @property
    def search(self) -> Search:
        """Ascent from both linear optima and random points."""
        starts: tuple[Start, ...] = (LinearOptimum(),)
        if self.random_starts:
            starts += (InBall(self.random_starts),)
        refuse_other("objective", self.objective, MapObjective, "use e.g. attacks.Angle()")
        return Search(self.objective, self.step, starts, self.keep, self.steps)
