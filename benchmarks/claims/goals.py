"""What the bounds are to reach, and whether they do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.stats import betabinom

from attribound.bounding.calibrated.conformal import rank
from claims.scores import ALPHA, Cell, Score, pool
from claims.store import Row

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
    """Standard deviation of the share of broken calibrated bounds, if exchangeable and distinct.

    Two draws enter it: the tests, and the calibration images that gave the factor.
    """
    return float(_broken(tests, calibrations).std()) / tests


def chance(tests: int, calibrations: int, share: float) -> float:
    """Probability that more than ``share`` of calibrated bounds are broken though all is well."""
    return float(_broken(tests, calibrations).sf(math.floor(share * tests + 1e-9)))


def _broken(tests: int, calibrations: int) -> betabinom:
    k = rank(calibrations, ALPHA)
    return betabinom(tests, calibrations + 1 - k, k)


def mean_value(cells: Sequence[Cell]) -> list[Goal]:
    """Mean value: rarely broken and not loose, on adversarially trained networks."""
    found = []
    for title, members, limits in (
        ("adversarially trained", [c for c in cells if c.adversarial], (0.01, 2.0)),
        ("naturally trained", [c for c in cells if not c.adversarial], (None, None)),
    ):
        known = _scores(members, "mean_value")
        n = sum(each.count for each in known)
        for text, measured, limit in (
            (f"share broken, all {n} pairs of image and ball", _pooled(known, "share"), limits[0]),
            ("share broken, worst cell", _largest(known, "share"), limits[0]),
            ("mean slack", _pooled(known, "slack"), limits[1]),
            ("mean slack, worst cell", _largest(known, "slack"), limits[1]),
            ("largest attack / bound", _largest(known, "worst"), None),
        ):
            found.append(Goal(f"{title}: {text}", measured, "<=", limit))
    return found


def calibrated(cells: Sequence[Cell], claim: str = "calibrated") -> list[Goal]:
    """Calibrated: broken as rarely as promised, and tighter than mean value."""
    members = [c for c in cells if claim in c.scores and math.isfinite(c.factors[claim])]
    both = [c for c in members if "mean_value" in c.scores]
    scores = _scores(members, claim)
    limits = [ALPHA + 2 * standard_error(c.scores[claim].count, c.calibrations) for c in members]
    strict = [ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / each.count) for each in scores]
    expected = sum(
        chance(each.count, cell.calibrations, limit)
        for each, cell, limit in zip(scores, members, limits, strict=True)
    )
    ratios = [c.scores[claim].slack / c.scores["mean_value"].slack for c in both]
    return [
        Goal("share broken, all cells", _pooled(scores, "share"), "<=", _mean(limits)),
        Goal("share broken, worst cell", _largest(scores, "share")),
        Goal(
            f"cells above .05 + 2 standard errors, of {len(members)} (chance gives {expected:.1f})",
            _count(scores, limits),
            "<=",
            0,
        ),
        Goal(
            "the same with the standard error of the tests alone",
            _count(scores, strict),
        ),
        Goal("mean slack", _pooled(scores, "slack")),
        Goal("mean slack / that of mean-value, mean of cells", _mean(ratios), "<=", 1),
        Goal(
            f"cells with more slack than mean-value, of {len(both)}",
            float(sum(r >= 1 for r in ratios)) if ratios else math.nan,
            "<=",
            0,
        ),
    ]


def certified(cells: Sequence[Cell]) -> list[Goal]:
    """Certified: never broken, and tight on adversarially trained MLPs in the l2 ball of .05."""
    scores = _scores(cells, "certified")
    n = sum(each.count for each in scores)
    broken = float(sum(each.broken for each in scores)) if scores else math.nan
    found = [Goal(f"broken, of {n} pairs of image and ball", broken, "<=", 0)]
    for cell in cells:
        small = cell.network.startswith("mlp-at") and (cell.p, cell.epsilon) == (2, 0.05)
        if small and "certified" in cell.scores:
            found.append(
                Goal(f"mean slack, {cell.name}", cell.scores["certified"].slack, "<=", 1.5)
            )
    return found


def linear(rows: Sequence[Row], features: int, network: str | None = None) -> list[Goal]:
    """The l-infinity problem at x: norm solver against Theorem 2 at one size of image.

    ``network``: one of those with images of that size; by default all.
    """
    sized = [row for row in rows if row["role"] == "linear" and row["features"] == features]
    have = [row for row in sized if network in (None, row["network"])]

    def measured(of: Callable[[Sequence[float]], float], value: Callable[[Row], float]) -> float:
        return of([value(row) for row in have]) if have else math.nan

    def tight(row: Row) -> float:
        return float(row["norm_upper"] / row["theorem2"])

    def gap(row: Row) -> float:
        return float(row["norm_upper"] / row["norm_lower"])

    def relaxed(row: Row) -> float:
        return float(row["corollary1"] / row["theorem2"])

    def fewer(row: Row) -> float:
        return float(row["theorem2_products"] / row["norm_products"])

    def faster(row: Row) -> float:
        return float(row["theorem2_seconds"] / row["norm_seconds"])

    return [
        Goal(f"upper / Theorem 2, mean of {len(have)}", measured(fmean, tight), "<=", 0.95),
        Goal("upper / Theorem 2, largest", measured(max, tight), "<=", 1.03),
        Goal("upper / lower, mean", measured(fmean, gap), "<=", 1.06),
        Goal("upper / lower, largest", measured(max, gap)),
        Goal("products of Theorem 2 / ours, mean", measured(fmean, fewer), ">=", FEWER[features]),
        Goal("products of Theorem 2 / ours, smallest", measured(min, fewer)),
        Goal("seconds of Theorem 2 / ours, mean", measured(fmean, faster)),
        Goal("Corollary 1 / Theorem 2, mean", measured(fmean, relaxed)),
    ]


def _scores(cells: Sequence[Cell], claim: str) -> list[Score]:
    return [cell.scores[claim] for cell in cells if claim in cell.scores]


def _pooled(scores: Sequence[Score], what: str) -> float:
    return float(getattr(pool(scores), what)) if scores else math.nan


def _largest(scores: Sequence[Score], what: str) -> float:
    return max((float(getattr(each, what)) for each in scores), default=math.nan)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def _count(scores: Sequence[Score], limits: Sequence[float]) -> float:
    if not scores:
        return math.nan
    return float(sum(each.share > limit for each, limit in zip(scores, limits, strict=True)))
