"""Protocols: how much an audit computes where its settings leave it open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from attribound.attacks import (
    IFIA,
    PGD,
    Angle,
    Ascend,
    Attack,
    AttributionAscent,
    KinkJumps,
    KinkSteps,
    OnlyIn,
    RandomPerturbation,
)
from attribound.balls import Ball, LinfBall
from attribound.bounding.first_order import Adjusted, FirstOrder
from attribound.bounding.mean_value import MeanValue
from attribound.bounding.method import Method
from attribound.bounding.smoothed import Smoothed
from attribound.results import claims
from attribound.values import Value, register

_CUBE = LinfBall(1.0).name


class Protocol(Value, ABC):
    """What an audit claims and attacks with by default.

    Mean-value bounds in it are never shown the attacks of the audit: a bound that knows
    them cannot be exceeded by them, whatever it is worth.
    """

    #: Whether cubes of images keep to the values of the data.
    value_range: ClassVar[Literal["data", "none"]] = "data"

    @abstractmethod
    def claims(self) -> tuple[Method, ...]:
        """Which bounds, with which effort."""

    @abstractmethod
    def attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:
        """Which attacks in these balls, by name."""

    def crossing_attacks(self) -> dict[str, Attack]:
        """Beside these, where an attribution can be differentiated across kinks: begun there."""
        return {"from_kinks": KinkJumps(8)}

    def own_claims(self) -> tuple[Method, ...]:
        """Which bounds of a network that a smooth copy stands for, beside those of the copy."""
        return ()

    def own_attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:  # noqa: ARG002
        """Which attacks on a network that a smooth copy stands for, beside those on the copy."""
        return {
            "through": AttributionAscent(steps=8, random_starts=2, seed=631).through(50, 200),
            "kinks": KinkSteps(),
            "jumps": KinkJumps(16),
            "noise": RandomPerturbation(seed=733).repeat(4),
        }


@register("quick")
@dataclass(frozen=True)
class Quick(Protocol):
    """A short ascent against first-order and mean-value bounds."""

    def claims(self) -> tuple[Method, ...]:
        """First-order, adjusted, and a short search."""
        return FirstOrder(), Adjusted(), MeanValue(shells=2, rounds=1)

    def own_claims(self) -> tuple[Method, ...]:
        """A certificate of the averaged map from few draws: enough for small balls."""
        return (Smoothed(draws=1000),)

    def attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:  # noqa: ARG002
        """One short ascent; its random start is none that the mean-value bound begins at."""
        return {"ascent": AttributionAscent(steps=8, random_starts=1, seed=317)}


@register("paper")
@dataclass(frozen=True)
class Paper(Protocol):
    """What Wang and Kong compute; their theorems are about whole balls."""

    value_range: ClassVar[Literal["data", "none"]] = "none"

    def crossing_attacks(self) -> dict[str, Attack]:
        """None: the paper has none."""
        return {}

    def claims(self) -> tuple[Method, ...]:
        """T_e and T'_e."""
        return FirstOrder(), Adjusted()

    def attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:
        """PGD-20 in round balls, 200 steps of IFIA in the cube, 20 times each."""
        names = tuple(dict.fromkeys(ball.name for ball in balls))
        round_balls = tuple(name for name in names if name != _CUBE)
        attacks: dict[str, Attack] = {}
        if round_balls:
            attacks["pgd"] = OnlyIn(PGD().repeat(20), round_balls)
        if _CUBE in names:
            attacks["ifia"] = OnlyIn(IFIA().repeat(20), (_CUBE,))
        return attacks


@register("strong")
@dataclass(frozen=True)
class Strong(Protocol):
    """Every claim about slopes that can be made without more settings, against five attacks."""

    def claims(self) -> tuple[Method, ...]:
        """All that are registered and need nothing else."""
        methods = (each.method() for each in claims() if each.method is not None)
        return tuple(method for method in methods if method.ready and method.needs_slopes)

    def own_claims(self) -> tuple[Method, ...]:
        """The certificate of the averaged map."""
        return (Smoothed(),)

    def attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:  # noqa: ARG002
        """Ascents of two kinds with random starts, one on the angle, and both of the paper."""
        return {
            "ascent": AttributionAscent(steps=16, random_starts=3, seed=317),
            "projected": AttributionAscent(step=Ascend(), steps=16, random_starts=1, seed=429),
            "angle": AttributionAscent(objective=Angle(), step=Ascend(), steps=12, seed=531),
            "pgd": PGD().repeat(3),
            "ifia": IFIA(steps=50),
        }

    def own_attacks(self, balls: Sequence[Ball]) -> dict[str, Attack]:  # noqa: ARG002
        """Ascents through three copies with many random starts, kinks, noise."""
        return {
            "through": AttributionAscent(random_starts=8, seed=631).through(20, 50, 200),
            "kinks": KinkSteps(64),
            "jumps": KinkJumps(),
            "noise": RandomPerturbation(seed=733).repeat(16),
        }
