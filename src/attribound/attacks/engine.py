"""One search for all attacks: objective x step rule x starts x which iterate is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from rich.progress import Progress
from torch import Tensor

from attribound.attacks.objectives import Evaluation, MapObjective, Objective, Problem
from attribound.attacks.remembered import Trail, Turn, trail_of
from attribound.attacks.steps import Here, LinearOptimum, Start, StepRule
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.numbers import check_whole
from attribound.basics.tensors import norm

Keep = Literal["last", "best", "best_label_kept"]
#: A climb whose step was shorter than this share of its perturbation has come to rest: at a fixed
#: point of its steps, where what is left to gain is of second order. Scores are no such sign: to
#: stop after two or three that hardly differ saved more steps and lost up to 13 % of the deviation.
_AT_REST = 1e-3


@dataclass(frozen=True, eq=False)
class Climbed:
    """What a search found.

    Attributes:
        delta: perturbation of each example.
        evaluations: gradients of the model it took for one example, at most.
        interrupted: by Ctrl-C; ``delta`` is the best until then.
    """

    delta: Tensor
    evaluations: int
    interrupted: bool


@dataclass(frozen=True)
class Search:
    """Climb an objective inside a ball.

    Attributes:
        objective: what is climbed.
        step: how to move.
        starts: from where; a climb from each of their points.
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
        check_whole("steps", self.steps, 0, "use e.g. 20")
        if self.keep not in ("last", "best", "best_label_kept"):
            raise InputError(
                "keep",
                expected="'last', 'best' or 'best_label_kept'",
                got=repr(self.keep),
                remedy="IFIA keeps the best with the label, PGD the last",
            )

    def run(self, problem: Problem, ball: Ball, seed: int, progress: bool) -> Climbed:
        """Search from every start; what was found so far survives an interrupt."""
        return self.run_all(problem, ball, [seed], progress)[0]

    def run_all(
        self, problem: Problem, ball: Ball, seeds: Sequence[int], progress: bool
    ) -> list[Climbed]:
        """The search of every seed, all their climbs as rows of one batch.

        Starts that are not random are climbed once, for all seeds.
        """
        try:
            rows, plan = self._begin(problem, ball, seeds)
        except KeyboardInterrupt:
            return [Climbed(torch.zeros_like(problem.x), 0, True) for _ in seeds]
        interrupted = False
        try:
            with Progress(disable=not progress) as bar:
                task = bar.add_task("attacking", total=self.steps)
                for _ in self._climb(rows):
                    bar.advance(task)
        except KeyboardInterrupt:
            interrupted = True
        return [Climbed(rows.best_of(own), rows.spent(own), interrupted) for own in plan]

    def _begin(
        self, problem: Problem, ball: Ball, seeds: Sequence[int]
    ) -> tuple[_Climbs, list[_Own]]:
        climbs: list[Tensor] = []
        plan = [_Own() for _ in seeds]
        known: list[tuple[Trail, int]] = []
        for start in self.starts:
            places: list[int] = []
            for i, seed in enumerate(seeds):
                if i == 0 or start.random:
                    shared = trail_of(problem, ball, self.objective, self.step, start)
                    if shared is not None:
                        known.append((shared, len(climbs)))
                    begun = start.begin(problem, ball, seed) if shared is None else shared.begun
                    places = [*range(len(climbs), len(climbs) + len(begun.deltas))]
                    climbs += [ball.project(delta, problem.x) for delta in begun.deltas]
                    plan[i].begun += places
                    plan[i].evaluations += begun.evaluations
                plan[i].climbs += places
        return _Climbs(problem, ball, climbs, self.keep, known), plan

    def _climb(self, rows: _Climbs) -> Iterator[None]:
        restful = self.keep == "best" and self.step.comes_to_rest
        cost = self.objective.cost(rows.problem)
        for turn in range(self.steps):
            rows.go_on(turn, cost)
            for part in rows.parts(self.objective):
                here = self._evaluate(part, cost, slope=True)
                assert here.slope is not None
                now = Here(part.problem.x, part.delta, here.slope)
                moved = self.step.move(part.ball, now, self.steps)
                part.move(part.ball.project(moved, part.problem.x))
                rows.remember(turn, part.places, here)
            if restful:
                rows.retire()
            yield
        if self.keep != "last":
            rows.go_on(self.steps, cost // 2, stay=True)
            for part in rows.parts(self.objective):
                here = self._evaluate(part, cost // 2, slope=False)
                rows.remember(self.steps, part.places, here)

    def _evaluate(self, part: _Part, cost: int, *, slope: bool) -> Evaluation:
        """The objective where some climbs are, which are offered it."""
        problem = part.problem
        here = self.objective.evaluate(problem, problem.x + part.delta, slope=slope)
        part.offer(here.measure, here.score, cost)
        return here


@dataclass
class _Own:
    """The climbs that count for one seed.

    Attributes:
        climbs: their places.
        begun: of these the ones that no seed before it has begun, and so pays for.
        evaluations: what their beginnings took.
    """

    climbs: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    evaluations: int = 0


class _Climbs:
    """Climbs from several starts of every example: where they are, and the best of each so far.

    Climb after climb, each with all examples.
    """

    def __init__(
        self,
        problem: Problem,
        ball: Ball,
        starts: list[Tensor],
        keep: Keep,
        known: Sequence[tuple[Trail, int]] = (),
    ) -> None:
        self.keep, self.known = keep, known
        self.batch, self.problem, self.ball = len(problem.x), problem, ball
        self.delta = torch.cat(starts) if len(starts) > 1 else starts[0]
        self.best = self.delta.clone() if keep == "last" else torch.zeros_like(self.delta)
        nothing = self.delta.new_full((len(self.delta),), -torch.inf)
        self.measure, self.score = nothing.clone(), nothing.clone()
        self.resting = torch.zeros_like(nothing, dtype=torch.bool)
        self.evaluations = torch.zeros(len(nothing), dtype=torch.long)
        self.going = torch.arange(len(nothing), device=nothing.device)
        self.played = torch.zeros_like(self.resting)
        if keep == "best_label_kept":
            self.label = problem.classifier.predict(problem.x)

    def parts(self, objective: Objective) -> Iterator[_Part]:
        """Those still going that had not gone this way before, as many as fit the memory."""
        going = self.going[~self.played[self.going]]
        if len(going) == self.batch == len(self.delta):
            yield _Part(self, going, self.problem, self.ball)
            return
        if not len(going):
            return
        for some in torch.split(going, objective.examples_at_once(self.problem)):
            rows = some % self.batch
            yield _Part(self, some, self.problem.rows(rows), self.ball.rows(self.problem.x, rows))

    def go_on(self, turn: int, cost: int, *, stay: bool = False) -> None:
        """Take what is known of this turn: ``played`` are those that it was known of."""
        self.played[:] = False
        for known, places in self._on_paths(turn):
            met = ~known.measure.isnan() & (known.gone | stay) & torch.isin(places, self.going)
            if not met.any():
                continue
            part = _Part(self, places[met], self.problem.rows(places[met] % self.batch), self.ball)
            part.offer(known.measure[met], known.score[met], cost)
            if not stay:
                part.move(known.after[met])
            self.played[places[met]] = True

    def remember(self, turn: int, places: Tensor, here: Evaluation) -> None:
        """Keep what some climbs met at this turn, if they may be asked for again."""
        for known, own in self._on_paths(turn):
            mine = torch.isin(places, own)
            rows = places[mine] - own[0]
            known.score[rows], known.measure[rows] = here.score[mine], here.measure[mine]
            if here.slope is not None:
                known.after[rows], known.gone[rows] = self.delta[places[mine]], True

    def _on_paths(self, turn: int) -> Iterator[tuple[Turn, Tensor]]:
        """What is known of a turn, and the places of the climbs it is about."""
        for shared, first in self.known:
            count = len(shared.begun.deltas) * self.batch
            places = torch.arange(count, device=self.delta.device) + first * self.batch
            yield shared.at(turn, self.delta[places]), places

    def retire(self) -> None:
        """Climbs that have come to rest go no further."""
        self.going = self.going[~self.resting[self.going]]

    def spent(self, own: _Own) -> int:
        """Gradients of the model for one example, at most."""
        took = self.evaluations.view(-1, self.batch)[own.begun].sum(0)
        return own.evaluations + int(took.max())

    def best_of(self, own: _Own) -> Tensor:
        """The best perturbation of each example in some of its climbs."""
        shape, climbs = (-1, self.batch), own.climbs
        measure, score = (each.view(shape)[climbs] for each in (self.measure, self.score))
        chosen = torch.zeros(self.batch, dtype=torch.long, device=measure.device)
        rows = torch.arange(self.batch, device=measure.device)
        for i in range(1, len(climbs)):
            ahead = (measure[i], score[i]), (measure[chosen, rows], score[chosen, rows])
            chosen[_better(*ahead[0], *ahead[1]) | (self.keep == "last")] = i
        places = torch.tensor(climbs, device=chosen.device)[chosen] * self.batch + rows
        return self.best[places]


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the climbs, which are evaluated together."""

    climbs: _Climbs
    places: Tensor
    problem: Problem
    ball: Ball

    @property
    def delta(self) -> Tensor:
        """Where they are."""
        return self.climbs.delta[self.places]

    def move(self, delta: Tensor) -> None:
        """Go on to ``delta``."""
        step = norm(delta - self.delta)
        self.climbs.resting[self.places] = step <= _AT_REST * norm(delta)
        self.climbs.delta[self.places] = delta
        if self.climbs.keep == "last":
            self.climbs.best[self.places] = delta

    def offer(self, measure: Tensor, score: Tensor, cost: int) -> None:
        """Keep where they are if the measure is larger, or as large with a larger score."""
        climbs, places = self.climbs, self.places
        climbs.evaluations[places.cpu()] += cost
        if climbs.keep == "last":
            return
        better = _better(measure, score, climbs.measure[places], climbs.score[places])
        chosen = better.nonzero().flatten()
        if climbs.keep == "best_label_kept" and len(chosen):
            x = self.problem.x[chosen] + self.delta[chosen]
            kept = self.problem.classifier.predict(x) == climbs.label[places[chosen] % climbs.batch]
            chosen = chosen[kept]
        climbs.measure[places[chosen]] = measure[chosen]
        climbs.score[places[chosen]] = score[chosen]
        climbs.best[places[chosen]] = self.delta[chosen]


def _better(measure: Tensor, score: Tensor, than: Tensor, tied: Tensor) -> Tensor:
    return (measure > than) | ((measure == than) & (score > tied))
