"""What the bounds are to reach, and whether they do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import betabinom

from attribound.auditing.cells import Numbers
from attribound.bounding.calibrated.conformal import rank
from claims.scores import ALPHA, Score, Scored, pool

#: Features of an image: at least so many times fewer products than Theorem 2.
FEWER = {784: 4.0, 3072: 15.0}


@dataclass(frozen=True)
class Goal:
    """A measured number and where it should lie; NaN if it was not measured.

    Attributes:
        limit: None if it is only for information.
    """

    text: str
    measured: float
    relation: str = ""
    limit: float | None = None

    @property
    def verdict(self) -> str:
        """``holds``, ``fails``, ``not measured``, or nothing without a goal."""
        if math.isnan(self.measured):
            return "not measured"
        if self.limit is None:
            return ""
        met = self.measured <= self.limit if self.relation == "<=" else self.measured >= self.limit
        return "holds" if met else "fails"

    @property
    def goal(self) -> str:
        """The goal as text."""
        known = self.limit is not None and not math.isnan(self.limit)
        return f"{self.relation} {self.limit:.4g}" if known else ""


def standard_error(tests: int, calibrations: int) -> float:
    """Standard deviation of the share of exceeded calibrated bounds, if exchangeable and distinct.

    Two draws enter it: the tests, and the calibration images that gave the factor.
    """
    return float(_exceeded(tests, calibrations).std()) / tests


def chance(tests: int, calibrations: int, share: float) -> float:
    """Probability that more than ``share`` of calibrated bounds are exceeded though all is well."""
    return float(_exceeded(tests, calibrations).sf(math.floor(share * tests + 1e-9)))


def _exceeded(tests: int, calibrations: int) -> betabinom:
    k = rank(calibrations, ALPHA)
    return betabinom(tests, calibrations + 1 - k, k)


def mean_value(cells: Sequence[Scored]) -> list[Goal]:
    """Mean value: rarely exceeded and not loose, on adversarially trained networks."""
    found = []
    for title, adversarial, often, loose in (
        ("adversarially trained", True, 0.01, 2.0),
        ("naturally trained", False, None, None),
    ):
        known = _scores([cell for cell in cells if cell.adversarial == adversarial], "mean_value")
        n = sum(each.count for each in known)
        found += [
            Goal(f"{title}: {text}", measured, "<=", limit)
            for text, measured, limit in (
                (f"share exceeded, all {n} pairs of image and ball", _all(known, "share"), often),
                ("share exceeded, worst cell", _largest(known, "share"), often),
                ("mean slack", _all(known, "slack"), loose),
                ("mean slack, worst cell", _largest(known, "slack"), loose),
                ("largest attack / bound", _largest(known, "worst"), None),
            )
        ]
    return found


def calibrated(cells: Sequence[Scored], claim: str = "calibrated") -> list[Goal]:
    """Calibrated: exceeded as rarely as promised, and tighter than mean value."""
    members = [c for c in cells if claim in c.scores and math.isfinite(c.factors[claim])]
    both = [c for c in members if "mean_value" in c.scores]
    scores = _scores(members, claim)
    shares = np.array([each.share for each in scores])
    sizes = [(each.count, cell.calibrations) for each, cell in zip(scores, members, strict=True)]
    limits = np.array([ALPHA + 2 * standard_error(*size) for size in sizes])
    strict = np.array([ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / n) for n, _ in sizes])
    expected = sum(chance(*size, limit) for size, limit in zip(sizes, limits, strict=True))
    ratios = np.array([c.scores[claim].slack / c.scores["mean_value"].slack for c in both])
    above = f"cells above .05 + 2 standard errors, of {len(members)} (chance gives {expected:.1f})"
    looser = f"cells with more slack than mean-value, of {len(both)}"
    return [
        Goal("share exceeded, all cells", _all(scores, "share"), "<=", _of(np.mean, limits)),
        Goal("share exceeded, worst cell", _largest(scores, "share")),
        Goal(above, _of(np.sum, shares > limits), "<=", 0),
        Goal("the same with the standard error of the tests alone", _of(np.sum, shares > strict)),
        Goal("mean slack", _all(scores, "slack")),
        Goal("mean slack / that of mean-value, mean of cells", _of(np.mean, ratios), "<=", 1),
        Goal(looser, _of(np.sum, ratios >= 1), "<=", 0),
    ]


def certified(cells: Sequence[Scored]) -> list[Goal]:
    """Certified: never exceeded, and tight on adversarially trained MLPs in the l2 ball of .05."""
    scores = _scores(cells, "certified")
    n = sum(each.count for each in scores)
    found = [Goal(f"exceeded, of {n} pairs of image and ball", _all(scores, "exceeded"), "<=", 0)]
    return found + [
        Goal(f"mean slack, {cell.name}", cell.scores["certified"].slack, "<=", 1.5)
        for cell in cells
        if cell.network.startswith("mlp-at") and cell.ball == "l2 0.05"
        if "certified" in cell.scores
    ]


def linear(rows: pa.Table, features: int, network: str | None = None) -> list[Goal]:
    """The l-infinity problem at x: norm solver against Theorem 2 at one size of image.

    ``network``: one of those with images of that size; by default all.
    """
    have = rows.filter(pc.equal(rows["features"], features))
    if network is not None:
        have = have.filter(pc.equal(have["network"], network))

    def ratio(above: str, below: str) -> Numbers:
        return np.asarray(have[above]) / np.asarray(have[below])

    tight, gap = ratio("norm_upper", "theorem2"), ratio("norm_upper", "norm_lower")
    fewer = ratio("theorem2_products", "norm_products")
    faster, relaxed = ratio("theorem2_seconds", "norm_seconds"), ratio("corollary1", "theorem2")
    enough = FEWER[features]
    return [
        Goal(f"upper / Theorem 2, mean of {len(have)}", _of(np.mean, tight), "<=", 0.95),
        Goal("upper / Theorem 2, largest", _of(np.max, tight), "<=", 1.03),
        Goal("upper / lower, mean", _of(np.mean, gap), "<=", 1.06),
        Goal("upper / lower, largest", _of(np.max, gap)),
        Goal("products of Theorem 2 / ours, mean", _of(np.mean, fewer), ">=", enough),
        Goal("products of Theorem 2 / ours, smallest", _of(np.min, fewer)),
        Goal("seconds of Theorem 2 / ours, mean", _of(np.mean, faster)),
        Goal("Corollary 1 / Theorem 2, mean", _of(np.mean, relaxed)),
    ]


def _scores(cells: Sequence[Scored], claim: str) -> list[Score]:
    return [cell.scores[claim] for cell in cells if claim in cell.scores]


def _all(scores: Sequence[Score], what: str) -> float:
    return float(getattr(pool(scores), what)) if scores else math.nan


def _largest(scores: Sequence[Score], what: str) -> float:
    return max((float(getattr(each, what)) for each in scores), default=math.nan)


def _of(statistic: Callable[[Numbers], float], values: Numbers) -> float:
    return float(statistic(values)) if len(values) else math.nan
