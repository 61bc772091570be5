"""What all attacks share: checks, the search, the verdict; repetition and combination."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.attacks.engine import Search
from attribound.attacks.judging import furthest, judge_all
from attribound.attacks.objectives import Problem
from attribound.attributions import Attribution
from attribound.attributions.base import check_attribution
from attribound.balls import Ball, check_ball
from attribound.basics.errors import InputError
from attribound.basics.numbers import check_count
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Attacked
from attribound.values import Value, class_of, register


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an attack; ``found`` has what it had found by then."""

    def __init__(self, found: Attacked) -> None:
        super().__init__("the attack was interrupted; .found has the best perturbations so far")
        self.found = found


class Attack(Value, ABC):
    """An attack is called as ``attack(attribution, x, ball, target=None)``.

    A frozen dataclass of settings. To add one, write ``__call__`` (:meth:`checked` refuses what
    can't be attacked, :func:`judge` scores perturbations) and ``seeded``, or derive from
    :class:`SearchAttack` and write ``search``.
    """

    @abstractmethod
    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Attack each example of ``x``."""

    @abstractmethod
    def seeded(self, seed: int) -> Attack:
        """The same attack with ``seed`` added to its own."""

    @staticmethod
    def checked(
        attribution: Attribution, x: Tensor, ball: Ball, target: Target
    ) -> tuple[Tensor, Tensor]:
        """Inputs and the labels to explain; what can't be attacked is refused."""
        x = check_inputs(x)
        check_ball(ball, x)
        check_attribution(attribution)
        return x, attribution.targets(x, target)

    def repeat(self, times: int) -> Attack:
        """The same attack ``times`` times with other seeds; the furthest moved is returned.

        Random starts differ, so starts that are not random give the same each time.
        """
        return Repeated(self, times)

    def through(self, *surrogates: Attribution | float) -> Attack:
        """The same attack, climbing surrogates, judged on the attribution it is called with.

        Args:
            surrogates: numbers are betas of smooth copies of the network; an attribution
                without a model is taken of that network (or of its copies); an attribution
                of a model is climbed as it is.
        """
        betas = tuple(float(each) for each in surrogates if not isinstance(each, Attribution))
        given = [each for each in surrogates if isinstance(each, Attribution)]
        recipes = [each for each in given if getattr(each, "model", None) is None]
        bound = [each for each in given if getattr(each, "model", None) is not None]
        if len(recipes) > 1 or len(bound) > 1:
            raise InputError(
                "surrogates",
                expected="at most one recipe and one attribution of a model, and any betas",
                got=f"{len(recipes)} and {len(bound)}",
                remedy="combine several attacks with BestOf",
            )
        made: Attack = class_of("through", Attack)(
            self, betas, next(iter(recipes), None), next(iter(bound), None)
        )
        return made

    def applies(self, ball: Ball) -> bool:  # noqa: ARG002
        """Whether audits make it in this ball."""
        return True

    @property
    def needs_slopes(self) -> bool:
        """Whether it climbs slopes of the map, which most maps of networks with kinks have not."""
        return False


class SearchAttack(Attack):
    """An attack that is a search: a subclass names its values in ``search``."""

    seed: int
    progress: bool

    def __post_init__(self) -> None:
        """Refuse what is no search, before there is anything to attack."""
        if not isinstance(self.seed, int):
            expected = "a whole number"
            raise InputError("seed", expected=expected, got=repr(self.seed), remedy="use e.g. 0")
        assert isinstance(self.search, Search)

    @property
    @abstractmethod
    def search(self) -> Search:
        """The values of the search."""

    @property
    def needs_slopes(self) -> bool:
        """Whether its search asks for the Jacobian."""
        return self.search.needs_jacobian

    def seeded(self, seed: int) -> Attack:
        """The same attack with ``seed`` added to its own."""
        changed = copy.copy(self)
        object.__setattr__(changed, "seed", self.seed + seed)  # frozen, but a copy of our own
        return changed

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Attack each example of ``x``."""
        return self._trials(attribution, x, ball, target, 1)[0]

    def repeated(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target, times: int
    ) -> Attacked:
        """The attack with ``times`` seeds, from its own on, as rows of one batch."""
        return furthest(self._trials(attribution, x, ball, target, times))

    def _trials(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target, times: int
    ) -> list[Attacked]:
        x, labels = self.checked(attribution, x, ball, target)
        search = self.search
        seeds = range(self.seed, self.seed + times)
        deltas: list[list[Tensor]] = [[] for _ in seeds]
        spent = [0 for _ in seeds]
        maps: list[Tensor] = []
        for part, rows in attribution.groups(x):
            clean = part(x[rows], labels[rows])
            maps.append(clean)
            if search.needs_jacobian and rows.start == 0:
                part.check(x[rows], smooth=True)
            problem = Problem(part, x[rows], labels[rows], clean)
            found = search.run_all(problem, ball.rows(x, rows), seeds, self.progress)
            interrupted = found[0].interrupted
            for i, trial in enumerate(found):
                deltas[i].append(trial.delta)
                spent[i] = max(spent[i], trial.evaluations)
                if interrupted:
                    deltas[i].append(torch.zeros_like(x[rows.stop :]))
            if interrupted:
                break
        whole = None if interrupted else torch.cat(maps)
        found_by = [torch.cat(each) for each in deltas]
        trials = judge_all(attribution, x, found_by, labels, spent, clean=whole)
        if interrupted:
            raise Interrupted(trials[0] if times == 1 else furthest(trials))
        return trials


@register("best_of")
@dataclass(frozen=True, init=False)
class BestOf(Attack):
    """Several attacks; of each example the perturbation that moves it furthest."""

    attacks: tuple[Attack, ...]

    def __init__(self, *several: Attack, attacks: Sequence[Attack] = ()) -> None:
        attacks = (*several, *attacks)
        if not attacks:
            raise InputError(
                "BestOf",
                expected="at least one attack",
                got="none",
                remedy="e.g. BestOf(PGD(), AttributionAscent())",
            )
        for each in attacks:
            if not isinstance(each, Attack):
                raise InputError(
                    "BestOf",
                    expected="attacks",
                    got=getattr(each, "__name__", type(each).__name__),
                    remedy="make them: BestOf(PGD(), AttributionAscent())",
                )
        object.__setattr__(self, "attacks", attacks)

    def seeded(self, seed: int) -> Attack:
        """The same attacks with ``seed`` added to theirs."""
        return BestOf(*(attack.seeded(seed) for attack in self.attacks))

    @property
    def needs_slopes(self) -> bool:
        """Whether one of them does."""
        return any(attack.needs_slopes for attack in self.attacks)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Run all of them."""
        trials: list[Attacked] = []
        try:
            for attack in self.attacks:
                trials.extend(_singles(attack(attribution, x, ball, target)))
        except Interrupted as stop:
            raise Interrupted(furthest([*trials, *_singles(stop.found)])) from None
        return furthest(trials)


@register("repeated")
@dataclass(frozen=True)
class Repeated(Attack):
    """An attack made ``times`` times with other seeds; the furthest moved is returned."""

    attack: Attack
    times: int = 20

    def __post_init__(self) -> None:
        """Refuse an attack that is never made."""
        check_count("times", self.times, "the paper repeats 20 times")

    def seeded(self, seed: int) -> Attack:
        """The same with ``seed`` added to the attack's."""
        return replace(self, attack=self.attack.seeded(seed))

    def applies(self, ball: Ball) -> bool:
        """Where the attack is made."""
        return self.attack.applies(ball)

    @property
    def needs_slopes(self) -> bool:
        """Whether the attack does."""
        return self.attack.needs_slopes

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Run it with every seed."""
        if isinstance(self.attack, SearchAttack):
            return self.attack.repeated(attribution, x, ball, target, self.times)
        every = BestOf(*(self.attack.seeded(i) for i in range(self.times)))
        return every(attribution, x, ball, target)


@register("only_in")
@dataclass(frozen=True)
class OnlyIn(Attack):
    """An attack that audits make only in balls of some names.

    Attributes:
        attack: which.
        balls: names of balls, e.g. ``("l2",)``.
    """

    attack: Attack
    balls: tuple[str, ...]

    def seeded(self, seed: int) -> Attack:
        """The same with ``seed`` added to the attack's."""
        return replace(self, attack=self.attack.seeded(seed))

    def applies(self, ball: Ball) -> bool:
        """Whether the ball is one of these."""
        return ball.name in self.balls

    @property
    def needs_slopes(self) -> bool:
        """Whether the attack does."""
        return self.attack.needs_slopes

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Attack, wherever that is."""
        return self.attack(attribution, x, ball, target)


def _singles(found: Attacked) -> Iterator[Attacked]:
    yield from found.trials or (found,)
