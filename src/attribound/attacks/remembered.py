"""Climbs that two searches have in common are made once.

A climb from a start that is not random is the same in every search of the same question that
climbs the same objective by a rule without a step size: the ascent that seeds a mean-value bound
and the ascent of the audit both begin at the linear optima. Within :func:`climbs_kept` the second
goes where the first went, as far as that is known; it finds and costs on paper the same.

A bound learns nothing by that of the attack that is held against it: what they share, each of them
would find alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.attacks.objectives import Objective, Problem
from attribound.attacks.steps import Beginning, Start, StepRule
from attribound.balls import Ball


@dataclass(frozen=True, eq=False)
class Turn:
    """What some climbs met at one turn, NaN of those that were not evaluated, and where they went.

    Attributes:
        measure: by which the best is chosen.
        after: the next perturbations.
        gone: whether ``after`` is known: at the last turn of a search nobody goes on.
    """

    score: Tensor
    measure: Tensor
    after: Tensor
    gone: Tensor

    @classmethod
    def of(cls, climbs: Tensor) -> Turn:
        """One of climbs that are at these perturbations, of which nothing is known yet."""
        nothing = climbs.new_full((len(climbs),), torch.nan)
        gone = torch.zeros(len(climbs), dtype=torch.bool, device=climbs.device)
        return cls(nothing, nothing.clone(), climbs.clone(), gone)


@dataclass(eq=False)
class Trail:
    """The climbs of one start: where they began, and every turn."""

    begun: Beginning
    turns: list[Turn] = field(default_factory=list)

    def at(self, turn: int, climbs: Tensor) -> Turn:
        """What is known of a turn, at which the climbs are at these perturbations."""
        if turn == len(self.turns):
            self.turns.append(Turn.of(climbs))
        return self.turns[turn]


@dataclass(frozen=True, eq=False)
class _Asked:
    problem: Problem
    ball: Ball
    how: tuple[Objective, StepRule, Start]
    trail: Trail

    def same(self, problem: Problem, ball: Ball, how: tuple[Objective, StepRule, Start]) -> bool:
        own = self.problem
        return (
            own.attribution is problem.attribution
            and self.ball is ball
            and self.how == how
            and torch.equal(own.x, problem.x)
            and torch.equal(own.target, problem.target)
        )


_kept: ContextVar[list[_Asked] | None] = ContextVar("climbs", default=None)


@contextmanager
def climbs_kept() -> Iterator[None]:
    """Within this, searches remember; no network may change in it."""
    before = _kept.set([])
    try:
        yield
    finally:
        _kept.reset(before)


def trail_of(
    problem: Problem, ball: Ball, objective: Objective, step: StepRule, start: Start
) -> Trail | None:
    """The trail of a start that somebody may ask for again, begun now or known; else None."""
    kept = _kept.get()
    if kept is None or start.random or not step.comes_to_rest:
        return None
    how = objective, step, start
    for asked in kept:
        if asked.same(problem, ball, how):
            return asked.trail
    made = Trail(start.begin(problem, ball, 0))
    kept.append(_Asked(problem, ball, how, made))
    return made
