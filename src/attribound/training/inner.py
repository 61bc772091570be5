"""The inner maximisation: objectives whose x' is found by the attack engine."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attribound.attacks.engine import Search
from attribound.attacks.objectives import Objective as Climbed
from attribound.attacks.objectives import Problem
from attribound.attacks.steps import Ascend, InBall, Start
from attribound.attributions import Classifier, Saliency
from attribound.basics.numbers import check_count, check_positive
from attribound.networks.frozen import frozen
from attribound.networks.modes import eval_mode
from attribound.training.objective import Step, TrainingObjective


@dataclass(frozen=True)
class Adversarial(TrainingObjective):
    """An objective whose x' is the last iterate of projected ascent inside the ball.

    The model is attacked in eval mode with frozen parameters; nothing is checked or
    judged afterwards, so that an attack costs its own passes and no more.

    Attributes:
        steps: of the ascent.
        step_size: in the ball's norm; default 2.5 epsilon / steps.
        start: where it begins.
    """

    steps: int = 10
    step_size: float | None = None
    start: ClassVar[Start] = InBall()

    def __post_init__(self) -> None:
        """Refuse an attack that does not move."""
        check_count("steps", self.steps, "of the inner attack, e.g. steps=10")
        if self.step_size is not None:
            check_positive("step_size", self.step_size, "leave it out for 2.5 epsilon / steps")

    @abstractmethod
    def climbed(self, step: Step) -> Climbed:
        """What the attack makes large; called in eval mode with frozen parameters."""

    def attack(self, step: Step) -> Tensor:
        """The last iterate."""
        x = step.x.detach()
        with eval_mode(step.model), frozen(step.model):
            # No attribution is asked for; the problem wants one that knows the classifier.
            # Weights move after every step: to trace the network would cost more than it saves.
            plain = Saliency(Classifier(step.model, structured=False))
            problem = Problem(plain, x, step.y, clean=x.new_empty(0))
            search = Search(
                self.climbed(step), Ascend(self.step_size), (self.start,), "last", self.steps
            )
            found = search.run(problem, step.ball, step.seed, progress=False)
        if found.interrupted:  # training has no use for half an attack
            raise KeyboardInterrupt
        return (x + found.delta).detach()
