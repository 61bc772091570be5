"""Claims through copies against attacks on the copies and on the networks themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing import Cell, cells
from attribound.auditing.cells import Numbers
from attribound.auditing.rows import COPY, YOURS
from attribound.bounding.calibrated.conformal import conformal_factor
from claims.scores import over

ALPHA = 0.05
USEFUL = 30.0  # degrees
#: First-order bounds of the copy, scaled so that they hold for the network itself.
CALIBRATED = "calibrated"
_BASE = "first_order"
#: Attacks on the network itself, in the order in which they are added.
STAGES = ("transferred", "through", "kinks", "noise")


@dataclass(frozen=True, eq=False)
class Score:
    """The bounds of a claim on some examples, and how far attacks moved these.

    Attributes:
        subject: of which network the bounds speak.
        bound, degrees: what they promise; infinite and 180 where that is nothing.
        attack: the strongest on the subject.
        own: the strongest on the network itself.
    """

    subject: str
    bound: Numbers
    degrees: Numbers
    attack: Numbers
    own: Numbers

    @property
    def count(self) -> int:
        """Pairs of example and ball."""
        return len(self.bound)

    @property
    def useful(self) -> float:
        """Share whose angle is below 30 degrees."""
        return float((self.degrees < USEFUL).mean())

    @property
    def slack(self) -> float:
        """Median of bound / attack on the subject."""
        return float(np.median(over(self.bound, self.attack)))

    @property
    def exceeded(self) -> int:
        """How many were exceeded on their subject."""
        return int((self.attack > self.bound).sum())

    @property
    def own_exceeded(self) -> int:
        """How many were exceeded on the network itself."""
        return int((self.own > self.bound).sum())

    @property
    def median_over(self) -> float:
        """Median of attack on the network itself / bound."""
        return float(np.median(over(self.own, self.bound)))

    @property
    def worst_over(self) -> float:
        """The largest of these."""
        return float(over(self.own, self.bound).max())


@dataclass(frozen=True, eq=False)
class Scored:
    """A network, an attribution, a ball and a copy: the rows of tests and of calibration."""

    network: str
    smooth: str
    test: Cell
    calibration: Cell | None = None

    @property
    def attribution(self) -> str:
        """What is explained."""
        return self.test.attribution

    @property
    def ball(self) -> str:
        """With its radius."""
        return f"{self.test.ball} {self.test.epsilon:g}"

    @property
    def beta(self) -> float:
        """Of the copy."""
        return float(self.test.numbers("beta")[0])

    @property
    def failed(self) -> list[str]:
        """The errors of examples that could not be measured."""
        return [each for each in self.test.errors if each is not None]

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Of every claim that was made, those that apply."""
        found = {claim: self._score(claim) for claim in self.test.claims}
        factor = self.factor
        if factor < math.inf and _BASE in found and CALIBRATED not in found:
            found[CALIBRATED] = self._calibrated(factor)
        return {claim: score for claim, score in found.items() if score.count}

    @property
    def not_applied(self) -> dict[str, str]:
        """Claims that were made for no example, with the reason."""
        texts = {claim: self.test.bound_texts(claim, "status") for claim in self.test.claims}
        return {
            claim: next((text for text in own if text), "")
            for claim, own in texts.items()
            if claim not in self.scores
        }

    @property
    def stages(self) -> dict[str, Numbers]:
        """How far the network itself was moved, with one attack after the other added."""
        found: dict[str, Numbers] = {}
        best = np.zeros(len(self.test))
        for name in STAGES:
            best = np.fmax(best, self.test.attack(name))
            found[name] = best
        return found

    def _score(self, claim: str) -> Score:
        cell = self.test
        (subject,) = cell.subjects(claim) or {COPY}
        attack = cell.strongest("deviation") if subject == COPY else cell.yours("deviation")
        columns = (cell.bound(claim), cell.bound(claim, "degrees"), attack, cell.yours("deviation"))
        return _known(subject, *columns)

    @property
    def factor(self) -> float:
        """What attacks on the network attained of the copy's bounds on other examples.

        Infinite if these are too few.
        """
        if self.calibration is None:
            return math.inf
        bound, own = self.calibration.bound(_BASE), self.calibration.yours("deviation")
        scores = np.where(own == 0, 0.0, over(own, bound))[~np.isnan(bound)]
        return conformal_factor(scores.tolist(), ALPHA)

    def _calibrated(self, factor: float) -> Score:
        """The copy's bounds, scaled."""
        bound = factor * self.test.bound(_BASE)
        own, length = self.test.yours("deviation"), self.test.numbers("own_norm")
        inside = bound < length
        sine = np.where(inside, over(bound, length), 0.0)
        degrees = np.where(inside, np.degrees(np.arcsin(sine)), 180.0)
        return _known(YOURS, bound, degrees, own, own)


def _known(subject: str, *columns: Numbers) -> Score:
    have: npt.NDArray[np.bool_] = ~np.isnan(columns[0])
    return Score(subject, *(each[have] for each in columns))


def pool(scores: Iterable[Score]) -> Score:
    """The score of all examples together; they have the same subject."""
    every = [*scores]
    (subject,) = {each.subject for each in every}
    columns = zip(*((e.bound, e.degrees, e.attack, e.own) for e in every), strict=True)
    return Score(subject, *map(np.concatenate, columns))


def fraction(stages: Sequence[dict[str, Numbers]]) -> dict[str, float]:
    """Mean of how far each stage got, of the furthest."""
    whole = {name: np.concatenate([each[name] for each in stages]) for name in STAGES}
    last = whole[STAGES[-1]]
    moved = last > 0
    return {
        name: float((own[moved] / last[moved]).mean()) if moved.any() else math.nan
        for name, own in whole.items()
    }


def scored(rows: pa.Table) -> list[Scored]:
    """Every cell that has tests, in the order in which networks and copies come."""
    names = ("network", "smooth")
    found = []
    for network, smooth in dict.fromkeys(zip(*(rows[n].to_pylist() for n in names), strict=True)):
        same = pc.and_(pc.equal(rows["network"], network), pc.equal(rows["smooth"], smooth))
        here = rows.filter(same)
        tests, others = (
            {
                (each.attribution, each.ball, each.epsilon): each
                for each in cells(here.filter(pc.equal(here["role"], role)))
            }
            for role in ("test", "calibration")
        )
        found += [Scored(network, smooth, test, others.get(key)) for key, test in tests.items()]
    return found
