"""Claims against attacks: how often a bound was exceeded, how far it lies above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing import Cell, cells
from attribound.auditing.cells import Numbers
from attribound.bounding.calibrated.conformal import conformal_factor

ALPHA = 0.05
#: Calibrated claims and those whose bounds they multiply with their factor.
BASES = {"calibrated": "first_order", "calibrated_mean_value": "mean_value"}
CLAIMS = ("first_order", "adjusted", "calibrated", "mean_value", *[*BASES][1:], "certified")


@dataclass(frozen=True, eq=False)
class Score:
    """The bounds of a claim on some images, and how far attacks moved these.

    Attributes:
        bound: infinite where nothing is promised.
        attack: the larger deviation of both passes.
        first: that of the first pass.
    """

    bound: Numbers
    attack: Numbers
    first: Numbers

    @property
    def count(self) -> int:
        """Images."""
        return len(self.bound)

    @property
    def exceeded(self) -> int:
        """How many an attack moved further than the bound."""
        return int((self.attack > self.bound).sum())

    @property
    def only_second(self) -> int:
        """How many of these only the second pass of attacks did."""
        return int(((self.attack > self.bound) & (self.first <= self.bound)).sum())

    @property
    def share(self) -> float:
        """Share of images with an exceeded bound."""
        return self.exceeded / self.count

    @property
    def slack(self) -> float:
        """Mean of bound / attack."""
        return float(over(self.bound, self.attack).mean())

    @property
    def worst(self) -> float:
        """Largest attack / bound."""
        return float(over(self.attack, self.bound).max())


@dataclass(frozen=True, eq=False)
class Scored:
    """A network, an attribution and a ball, with the score of every claim that was computed.

    Attributes:
        calibrations: images behind the factors.
        measured: the rows behind it, tests and calibration.
    """

    network: str
    attribution: str
    ball: str
    calibrations: int
    factors: dict[str, float]
    scores: dict[str, Score]
    measured: tuple[Cell, ...] = ()

    @property
    def adversarial(self) -> bool:
        """Whether the network was trained adversarially."""
        return "at" in self.network.split("-")

    @property
    def name(self) -> str:
        """All three, in short."""
        return f"{self.network} {self.attribution} {self.ball}"


def over(a: Numbers, b: Numbers) -> Numbers:
    """``a / b`` for numbers that are not negative; 0 / 0 is 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a == b, 1.0, np.asarray(a) / b)


def pool(scores: Sequence[Score]) -> Score:
    """The score of all images together."""
    every = [(each.bound, each.attack, each.first) for each in scores]
    return Score(*map(np.concatenate, zip(*every, strict=True)))


def factor(calibration: Cell, base: str) -> float | None:
    """The conformal factor of ``base``, as the library takes it; None where there is none stored.

    Infinite if there are too few images.
    """
    bound, attack = calibration.bound(base), calibration.strongest("deviation")
    known = ~np.isnan(bound)
    scores = np.where(attack == 0, 0.0, over(attack, bound))[known]
    return conformal_factor(scores.tolist(), ALPHA) if known.any() else None


def scored(rows: pa.Table) -> list[Scored]:
    """Every cell that has tests, in the order in which they come."""
    names = ("network", "attribution", "ball", "epsilon")
    order = dict.fromkeys(zip(*(rows[name].to_pylist() for name in names), strict=True))
    found: dict[tuple[object, ...], Cell] = {}
    for network in dict.fromkeys(key[0] for key in order):
        for role in ("test", "calibration"):
            same = pc.and_(pc.equal(rows["network"], network), pc.equal(rows["role"], role))
            for cell in cells(rows.filter(same)):
                found[role, network, cell.attribution, cell.ball, cell.epsilon] = cell
    both = [(key[0], found.get(("test", *key)), found.get(("calibration", *key))) for key in order]
    return [_scored(network, test, other) for network, test, other in both if test]


def _scored(network: str, test: Cell, calibration: Cell | None) -> Scored:
    factors = {name: factor(calibration, base) for name, base in BASES.items() if calibration}
    known = {name: value for name, value in factors.items() if value is not None}
    attack, first = test.strongest("deviation"), test.attack("first")
    scores = {}
    for claim in CLAIMS:
        bound = known.get(claim, math.nan if claim in BASES else 1.0) * test.bound(
            BASES.get(claim, claim)
        )
        have = ~np.isnan(bound)
        if have.any():
            scores[claim] = Score(bound[have], attack[have], first[have])
    measured = tuple(each for each in (test, calibration) if each)
    count, ball = len(calibration or ()), f"{test.ball} {test.epsilon:g}"
    return Scored(network, test.attribution, ball, count, known, scores, measured)
