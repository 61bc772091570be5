"""Claims against attacks: how often a bound was broken, how far it lies above."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from attribound.bounding.calibrated.conformal import conformal_factor
from claims.passes import cell, joined
from claims.store import Row

ALPHA = 0.05
#: Calibrated claims and the column that they multiply with their factor.
BASES = {"calibrated": "first_order", "calibrated_mean_value": "mean_value"}
CLAIMS = ("first_order", "adjusted", "calibrated", "mean_value", *[*BASES][1:], "certified")


@dataclass(frozen=True)
class Score:
    """A claim on some images.

    Attributes:
        count: images.
        broken: how many an attack moved further than the bound.
        only_again: how many of these only the second pass of attacks did.
        slack: mean of bound / attack.
        worst: largest attack / bound.
    """

    count: int
    broken: int
    slack: float
    worst: float
    only_again: int = 0

    @property
    def share(self) -> float:
        """Share of images with a broken bound."""
        return self.broken / self.count


@dataclass(frozen=True)
class Cell:
    """A network, an attribution and a ball, with the score of every claim that was computed."""

    network: str
    attribution: str
    p: float
    epsilon: float
    calibrations: int
    factors: dict[str, float]
    scores: dict[str, Score]

    @property
    def ball(self) -> str:
        """The ball in short."""
        return f"l{self.p:g} {self.epsilon:g}"

    @property
    def adversarial(self) -> bool:
        """Whether the network was trained adversarially."""
        return "at" in self.network.split("-")

    @property
    def name(self) -> str:
        """All three, in short."""
        return f"{self.network} {self.attribution} {self.ball}"


def score(
    bounds: Sequence[float], attacks: Sequence[float], first: Sequence[float] | None = None
) -> Score:
    """How bounds did on images whose attributions attacks moved so far.

    An attribution that neither moves nor may move has slack 1. ``first`` is what the first
    pass of attacks attained, if ``attacks`` are the best of more than that.
    """
    pairs = [*zip(bounds, attacks, strict=True)]
    earlier = zip(pairs, attacks if first is None else first, strict=True)
    return Score(
        count=len(pairs),
        broken=sum(attack > bound for bound, attack in pairs),
        slack=fmean(_over(bound, attack) for bound, attack in pairs),
        worst=max(_over(attack, bound) for bound, attack in pairs),
        only_again=sum(before <= bound < attack for (bound, attack), before in earlier),
    )


def pool(scores: Sequence[Score]) -> Score:
    """The score of all images together."""
    count = sum(each.count for each in scores)
    return Score(
        count=count,
        broken=sum(each.broken for each in scores),
        slack=sum(each.slack * each.count for each in scores) / count,
        worst=max(each.worst for each in scores),
        only_again=sum(each.only_again for each in scores),
    )


def factor(calibration: Iterable[Row], base: str) -> float | None:
    """The conformal factor of ``base``, as the library takes it; None where there is none stored.

    Infinite if there are too few images.
    """
    have = [row for row in calibration if row[base] is not None]
    scores = [_over(row["attack"], row[base]) if row["attack"] else 0.0 for row in have]
    return conformal_factor(scores, ALPHA) if scores else None


def cells(rows: Sequence[Row]) -> list[Cell]:
    """Every cell that has test rows of both passes of attacks, in the order in which they come."""
    grouped: dict[tuple[str, str, float, float], dict[str, list[Row]]] = {}
    for row in joined(rows):
        grouped.setdefault(cell(row), {"test": [], "calibration": []})[row["role"]].append(row)
    return [_cell(key, **found) for key, found in grouped.items() if found["test"]]


def _cell(key: tuple[str, str, float, float], test: list[Row], calibration: list[Row]) -> Cell:
    factors = {name: factor(calibration, base) for name, base in BASES.items()}
    known = {name: value for name, value in factors.items() if value is not None}
    scores: dict[str, Score] = {}
    for claim in CLAIMS:
        if claim in BASES and claim not in known:
            continue
        base, scale = BASES.get(claim, claim), known.get(claim, 1.0)
        have = [row for row in test if row[base] is not None]
        if have:
            bounds = [scale * row[base] for row in have]
            attacks = [row["attack"] for row in have]
            scores[claim] = score(bounds, attacks, [row["first_attack"] for row in have])
    return Cell(*key, len(calibration), known, scores)


def _over(a: float, b: float) -> float:
    """``a / b`` for numbers that are not negative; 0 / 0 is 1."""
    if a == b:
        return 1.0
    return a / b if b else math.inf
