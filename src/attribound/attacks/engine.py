"""One search for all attacks: objective x step rule x starts x which iterate is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from rich.progress import Progress
from torch import Tensor

from attribound.attacks.objectives import MapObjective, Objective, Problem
from attribound.attacks.steps import Here, LinearOptimum, Start, StepRule
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import per_example

Keep = Literal["last", "best", "best_label_kept"]


@dataclass(frozen=True)
class Search:
    """Climb an objective inside a ball.

    Attributes:
        objective: what is climbed.
        step: how to move.
        starts: from where; a search from each of their points.
        keep: the ``last`` iterate, the ``best`` by the objective's measure, or the best of
            those with the label of the clean input, else the clean input itself.
        steps: from each start.
    """

    objective: Objective
    step: StepRule
    starts: tuple[Start, ...]
    keep: Keep
    steps: int

    @property
    def needs_jacobian(self) -> bool:
        """Whether it asks the attribution for its Jacobian."""
        return isinstance(self.objective, MapObjective) or any(
            isinstance(start, LinearOptimum) for start in self.starts
        )

    def __post_init__(self) -> None:
        """Refuse a search that does not move, or keeps what is not known."""
        if self.steps < 0:
            raise InputError(
                "steps", expected="0 or more", got=repr(self.steps), remedy="use e.g. 20"
            )
        if self.keep not in ("last", "best", "best_label_kept"):
            raise InputError(
                "keep",
                expected="'last', 'best' or 'best_label_kept'",
                got=repr(self.keep),
                remedy="IFIA keeps the best with the label, PGD the last",
            )

    def run(self, problem: Problem, ball: Ball, seed: int, progress: bool) -> Best:
        """Search from every start; what was found so far survives an interrupt."""
        best = Best(problem, self.keep)
        try:
            with Progress(disable=not progress) as bar:
                for delta in self._beginnings(problem, ball, seed, best):
                    task = bar.add_task("attacking", total=self.steps)
                    for _ in self._climb(problem, ball, delta, best):
                        bar.advance(task)
        except KeyboardInterrupt:
            best.interrupted = True
        return best

    def _beginnings(self, problem: Problem, ball: Ball, seed: int, best: Best) -> Iterator[Tensor]:
        for start in self.starts:
            beginning = start.begin(problem, ball, seed)
            best.evaluations += beginning.evaluations
            for delta in beginning.deltas:
                yield ball.project(delta, problem.x)

    def _climb(self, problem: Problem, ball: Ball, delta: Tensor, best: Best) -> Iterator[None]:
        for _ in range(self.steps):
            here = self.objective.evaluate(problem, problem.x + delta, slope=True)
            best.evaluations += self.objective.cost(problem)
            best.offer(delta, here.measure, here.score)
            assert here.slope is not None
            here_now = Here(problem.x, delta, here.slope)
            moved = self.step.move(ball, here_now, self.steps)
            delta = ball.project(moved, problem.x)
            yield
        if self.keep == "last":
            best.take(delta)
            return
        here = self.objective.evaluate(problem, problem.x + delta, slope=False)
        best.evaluations += self.objective.cost(problem) // 2
        best.offer(delta, here.measure, here.score)


class Best:
    """The best perturbation of each example so far."""

    def __init__(self, problem: Problem, keep: Keep) -> None:
        self.delta = torch.zeros_like(problem.x)
        self.evaluations = 0
        self.interrupted = False
        self._problem, self._keep = problem, keep
        nothing = problem.x.new_full((len(problem.x),), -torch.inf)
        self._measure, self._score = nothing, nothing.clone()
        if keep == "best_label_kept":
            self._label = problem.classifier.predict(problem.x)

    def take(self, delta: Tensor) -> None:
        """Keep ``delta`` whatever it is worth."""
        self.delta = delta

    def offer(self, delta: Tensor, measure: Tensor, score: Tensor) -> None:
        """Keep ``delta`` where its measure is larger, or as large with a larger score."""
        if self._keep == "last":
            return
        tie = (measure == self._measure) & (score > self._score)
        better = (measure > self._measure) | tie
        if self._keep == "best_label_kept" and better.any():
            better &= self._problem.classifier.predict(self._problem.x + delta) == self._label
        self._measure = torch.where(better, measure, self._measure)
        self._score = torch.where(better, score, self._score)
        self.delta = torch.where(per_example(better, delta), delta, self.delta)
