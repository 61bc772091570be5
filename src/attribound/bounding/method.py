"""A claim's method, and the question it answers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from attribound.attacks import Attack
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.results import Attacked, Bound, Claim, MaxEpsilon, claim_of
from attribound.values import Value

Kind = TypeVar("Kind", bound="Method")


class Method(Value, ABC):
    """How the bounds of a claim are computed: one class a claim, whose fields are the effort.

    To add a claim, derive from this, write ``bound``, and enter a :class:`Claim` with the class
    as its ``method`` by ``register_claim``.
    """

    #: Whether there are networks, attributions or balls without such a bound: audits then
    #: record why, and the sample does not count as failed.
    may_not_apply: ClassVar[bool] = False
    #: Whether it needs derivatives of the attribution, and so a network without kinks. One that
    #: does not is asked of the network that people run, not of a smooth copy of it.
    needs_slopes: ClassVar[bool] = True
    #: Whether its bounds depend on the attacks that a question knows of.
    uses_attacks: ClassVar[bool] = False
    #: Whether it can speak of a network with kinks itself: audits through a smooth copy ask it
    #: about the network first, and audits of such claims alone need no copy.
    of_kinked: ClassVar[bool] = False

    @property
    def needs_smooth(self) -> bool:
        """Whether it says nothing of a network with kinks."""
        return self.needs_slopes and not self.of_kinked

    @classmethod
    def adopt(cls, thing: object) -> Value | None:
        """What knows its method by itself, such as a calibration."""
        make = getattr(thing, "as_method", None)
        made: Value | None = make() if callable(make) else None
        return made

    @property
    def claim(self) -> Claim:
        """What its bounds promise."""
        found = claim_of(self)
        if found is not None:
            return found
        raise InputError(
            f"method {type(self).__name__}",
            expected="one that belongs to a claim",
            got="none that names it",
            remedy="enter one: register_claim(Claim(..., method=" + type(self).__name__ + "))",
        )

    @abstractmethod
    def bound(self, question: Question) -> Bound:
        """The bound of every example; :func:`restate` makes one of a first-order bound."""

    def speaks_of(self, attribution: Attribution, x: Tensor, ball: Ball) -> Attribution:  # noqa: ARG002
        """The map that its bounds are about, if that is another one: attacks on it count."""
        return attribution

    def opponent(self) -> Attack | None:
        """What audits attack that other map with; None, as here, where there is none."""
        return None

    def largest_radius(self, question: Question, kind: str, limit: float) -> MaxEpsilon:  # noqa: ARG002
        """The largest radius of balls like that of the question at which its bound is in a limit.

        ``kind`` is ``euclidean``, ``cosine`` or ``degrees``.

        Raises:
            InputError: it is known in balls that were asked for only, as here.
        """
        raise InputError(
            "method",
            expected="one whose bounds are known at every radius",
            got=type(self).__name__,
            remedy="use attribound.FirstOrder() or attribound.Smoothed(), or bound several radii",
        )

    @property
    def ready(self) -> bool:
        """Whether its settings are enough to compute something."""
        return True

    def files(self) -> tuple[Path, ...]:
        """Files that its bounds depend on, beside the settings."""
        return ()

    def prepare(self, questions: Sequence[Question]) -> None:
        """Answer questions about the same examples in several balls beforehand, if that is cheaper.

        Answers go into ``made`` and ``seconds`` of each question.
        """


@dataclass(eq=False)
class Question:
    """How far do these examples move in this ball? Each method answers once.

    Attributes:
        x: inputs ``(batch, *features)``, checked.
        target: labels ``(batch,)``.
        attacked: attacks on the same inputs that a bound may know of.
        wanted: the methods that are asked.
        predicted: the labels were left open, and are what the network in question predicts.
        made: answers so far.
        shared: what methods know of these examples from other balls, if ``prepare`` put it there.
        seconds: time spent on each beyond what it shares with those before it.
    """

    attribution: Attribution
    x: Tensor
    ball: Ball
    target: Tensor
    attacked: tuple[Attacked, ...] = ()
    wanted: tuple[Method, ...] = ()
    predicted: bool = False
    made: dict[Method, Bound] = field(default_factory=dict)
    seconds: dict[Method, float] = field(default_factory=dict)
    shared: dict[Method, Any] = field(default_factory=dict)
    _inside: float = 0.0

    def bound(self, method: Method) -> Bound:
        """The bound by ``method``, from memory if it is there."""
        if method not in self.made:
            outside, self._inside = self._inside, 0.0
            start = time.perf_counter()
            made = method.bound(self)
            spent = time.perf_counter() - start
            self.made[method], self.seconds[method] = made, spent - self._inside
            self._inside = outside + spent
        return self.made[method]

    def by(self, kind: type[Kind]) -> Bound:
        """The bound by the wanted method of that kind, or by its defaults."""
        known = (*self.made, *self.wanted)
        return self.bound(next((m for m in known if type(m) is kind), None) or kind())

    def blind(self) -> Question:
        """The same question of somebody who knows no attacks."""
        if not self.attacked:
            return self
        kept = {method: made for method, made in self.made.items() if not method.uses_attacks}
        return replace(self, attacked=(), made=kept, seconds={})
