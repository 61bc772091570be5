"""What an audit found, one record per attribution, norm and epsilon.

Console tables, reports and comparisons are made of these records only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing.rows import attacks_in, claims_in

Numbers = npt.NDArray[np.float64]
_UNDEFINED = 180.0
_Z = 1.959963984540054  # 97.5 % of a standard normal variable are below


@dataclass(frozen=True)
class BrokenShare:
    """How many of ``n`` bounds an attack exceeded, with Wilson's 95 % interval of the share."""

    count: int
    n: int
    share: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, n: int) -> BrokenShare | None:
        """None if nothing was compared."""
        return cls(count, n, count / n, *wilson(count, n)) if n else None


@dataclass(frozen=True)
class ClaimSummary:
    """One claim in one ball.

    Attributes:
        n: samples with a bound.
        mean: of the bounds; infinite if one is.
        degrees: mean of the angles that are bounded at all; None if none is.
        undefined: how many are not (180 degrees).
        broken: bounds below the best attack.
        broken_degrees: angles below the largest attained.
        slack: mean of bound / attack, where the attack moved anything.
        worst: largest attack / bound; above 1 where broken.
        products: mean of those behind a bound; None for ``adjusted``, which has none of its own.
        seconds: in total.
        statuses: how many samples have which.
    """

    claim: str
    n: int
    mean: float | None
    degrees: float | None
    undefined: int
    broken: BrokenShare | None
    broken_degrees: BrokenShare | None
    slack: float | None
    worst: float | None
    products: float | None
    seconds: float | None
    statuses: dict[str, int]


@dataclass(frozen=True)
class AttackSummary:
    """One attack in one ball, or the best of all.

    Attributes:
        n: samples attacked.
        mean, worst: of the largest deviation of each sample.
        mean_of_means: of the mean over repeats, which the paper compares with; None for the
            best of all.
        degrees, worst_degrees: of the largest defined angle of each sample.
        undefined: samples whose angle is undefined (180 degrees), because a map vanished.
        labels_kept: share of samples whose label the furthest perturbation kept.
        kendall, topk: mean similarity of the maps at the furthest perturbation.
        seconds: in total; None for the best of all.
    """

    attack: str
    n: int
    mean: float | None
    worst: float | None
    mean_of_means: float | None
    degrees: float | None
    worst_degrees: float | None
    undefined: int
    labels_kept: float | None
    kendall: float | None
    topk: float | None
    seconds: float | None


@dataclass(frozen=True)
class Summary:
    """One attribution in one ball.

    Attributes:
        n: samples, failed ones included.
        errors: samples that failed; they are in no other number.
        misclassified: samples whose prediction is not their label.
        undefined: samples whose attacked angle is undefined.
        attribution_norm: mean Euclidean norm of the clean attribution.
        best: the best attack of each sample; None if none was made.
        attacks: each attack, by name.
        claims: each claim, by name, and ``adjusted``.
    """

    attribution: str
    norm: str
    p: float
    epsilon: float
    n: int
    errors: int
    misclassified: int
    undefined: int
    attribution_norm: float | None
    best: AttackSummary | None
    attacks: dict[str, AttackSummary]
    claims: dict[str, ClaimSummary]

    def record(self) -> dict[str, Any]:
        """Plain values for JSON, which has no infinity: it becomes the text ``inf``."""
        found: dict[str, Any] = _plain(asdict(self))
        return found


def summarise(table: pa.Table) -> list[Summary]:
    """The rows of an audit in one record per attribution, norm and epsilon, in that order.

    Samples that failed are counted, and left out of everything else.
    """
    keys = table.group_by(["attribution", "norm", "p", "epsilon"]).aggregate([]).to_pylist()
    found = []
    for key in sorted(keys, key=lambda row: (row["attribution"], row["p"], row["epsilon"])):
        mask = pc.and_(
            pc.equal(table["attribution"], key["attribution"]),
            pc.and_(
                pc.equal(table["norm"], key["norm"]), pc.equal(table["epsilon"], key["epsilon"])
            ),
        )
        found.append(_summary(table.filter(mask), key))
    return found


def wilson(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; never of length zero, unlike plus and minus 2 SE.

    >>> [round(end, 3) for end in wilson(0, 100)]
    [0.0, 0.037]
    """
    share, scale = count / n, 1 + _Z**2 / n
    centre = (share + _Z**2 / (2 * n)) / scale
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / scale
    # Exactly at the ends, where rounding would leave a speck.
    return (0.0 if count == 0 else centre - half), (1.0 if count == n else centre + half)


def _summary(rows: pa.Table, key: dict[str, Any]) -> Summary:
    fine = rows.filter(pc.is_null(rows["error"]))
    attacks = {name: _attack(fine, name) for name in attacks_in(rows.column_names)}
    best = _attack(fine, "") if attacks else None
    claims = {name: _claim(fine, name) for name in claims_in(rows.column_names)}
    correct = _known(fine, "correct")
    return Summary(
        attribution=key["attribution"],
        norm=key["norm"],
        p=key["p"],
        epsilon=key["epsilon"],
        n=len(rows),
        errors=len(rows) - len(fine),
        misclassified=int((correct == 0).sum()),
        undefined=best.undefined if best else 0,
        attribution_norm=_mean(_known(fine, "attribution_norm")),
        best=best if best and best.n else None,
        attacks=attacks,
        claims={"adjusted": _claim(fine, "adjusted"), **claims},
    )


def _claim(rows: pa.Table, name: str) -> ClaimSummary:
    bound, attack = _numbers(rows, name), _numbers(rows, "attack")
    bounded = bound[~np.isnan(bound)]
    angles = _known(rows, f"{name}_degrees")
    moved = ~np.isnan(bound) & (attack > 0)
    with np.errstate(divide="ignore"):
        slack, factor = bound[moved] / attack[moved], attack[moved] / bound[moved]
    own = f"{name}_status" in rows.column_names
    return ClaimSummary(
        claim=name,
        n=len(bounded),
        mean=_mean(bounded),
        degrees=_mean(angles[angles < _UNDEFINED]),
        undefined=int((angles >= _UNDEFINED).sum()),
        broken=_broken(rows, f"{name}_broken"),
        broken_degrees=_broken(rows, f"{name}_degrees_broken") if own else None,
        slack=_mean(slack),
        worst=_largest(factor),
        products=_mean(_known(rows, f"{name}_products")) if own else None,
        seconds=float(_known(rows, f"{name}_seconds").sum()) if own else None,
        statuses=dict(Counter(rows[f"{name}_status"].to_pylist()).most_common()) if own else {},
    )


def _attack(rows: pa.Table, name: str) -> AttackSummary:
    """The attack of that name; the best of all if it has none."""
    stem = f"attack_{name}" if name else "attack"
    deviation = _known(rows, stem)
    angles = _known(rows, f"{stem}_degrees")
    defined = angles[angles < _UNDEFINED]
    similarity = f"{stem}_" if name else ""
    return AttackSummary(
        attack=name or "best",
        n=len(deviation),
        mean=_mean(deviation),
        worst=_largest(deviation),
        mean_of_means=_mean(_known(rows, f"{stem}_mean")) if name else None,
        degrees=_mean(defined),
        worst_degrees=_largest(defined),
        undefined=len(angles) - len(defined),
        labels_kept=_mean(_known(rows, f"{stem}_label_kept")),
        kendall=_mean(_known(rows, f"{similarity}kendall")),
        topk=_mean(_known(rows, f"{similarity}topk")),
        seconds=float(_known(rows, f"{stem}_seconds").sum()) if name else None,
    )


def _broken(rows: pa.Table, column: str) -> BrokenShare | None:
    flags = _known(rows, column)
    return BrokenShare.of(int(flags.sum()), len(flags))


def _numbers(rows: pa.Table, column: str) -> Numbers:
    """A column as doubles, null as NaN."""
    values: Numbers = pc.cast(rows[column], pa.float64()).to_numpy()
    return values


def _known(rows: pa.Table, column: str) -> Numbers:
    """A column as doubles without its nulls."""
    values = _numbers(rows, column)
    return values[~np.isnan(values)]


def _mean(values: Numbers) -> float | None:
    return float(values.mean()) if len(values) else None


def _largest(values: Numbers) -> float | None:
    return float(values.max()) if len(values) else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value


def totals(summaries: Sequence[Summary]) -> dict[str, BrokenShare | None]:
    """Of each claim how many bounds were broken over all attributions and balls."""
    counts: dict[str, tuple[int, int]] = {}
    for summary in summaries:
        for name, claim in summary.claims.items():
            broken, n = counts.get(name, (0, 0))
            if claim.broken is not None:
                broken, n = broken + claim.broken.count, n + claim.broken.n
            counts[name] = (broken, n)
    return {name: BrokenShare.of(*both) for name, both in counts.items()}
