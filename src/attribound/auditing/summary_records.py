"""The records of what an audit found: of every claim, attack and copy in one ball.

Console tables, reports and comparisons are made of these records only.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from attribound.auditing.cells import Setting

_Z = 1.959963984540054  # 97.5 % of a standard normal variable are below


@dataclass(frozen=True)
class ExceededShare:
    """How many of ``n`` bounds an attack exceeded, with Wilson's 95 % interval of the share."""

    count: int
    n: int
    share: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, n: int) -> ExceededShare | None:
        """None if nothing was compared."""
        return cls(count, n, count / n, *wilson(count, n)) if n else None


@dataclass(frozen=True)
class ClaimSummary:
    """One claim in one ball.

    Attributes:
        n: samples with a bound.
        mean, largest: of the bounds; infinite if one is.
        degrees, worst_degrees: median and largest angle over all samples that were measured; 180
            where nothing limits it, a sample without a bound included. None if there is no bound.
        open: how many angles nothing limits (180 degrees), samples without a bound included.
        exceeded: bounds below the best attack.
        exceeded_degrees: angles below the largest attained.
        slack: mean of bound / attack, where the attack moved anything.
        worst: largest attack / bound; above 1 where exceeded.
        products: mean of those behind a bound.
        seconds: in total.
        statuses: how many samples have which.
        subject: ``yours`` or ``copy``: of which network all of this speaks, the attacks that
            it was held against included. None if no bound was made.
        yours: with a smooth copy, bounds below the best attack on the user's own network,
            whatever they speak of.
        yours_worst: the largest attack on the user's own network / bound, with a copy.
        either: bounds that an attack exceeded on their subject or on the user's own network.
    """

    claim: str
    n: int
    mean: float | None
    largest: float | None
    degrees: float | None
    worst_degrees: float | None
    open: int
    exceeded: ExceededShare | None
    exceeded_degrees: ExceededShare | None
    slack: float | None
    worst: float | None
    products: float | None
    seconds: float | None
    statuses: dict[str, int]
    subject: str | None
    yours: ExceededShare | None
    yours_worst: float | None
    either: ExceededShare | None


@dataclass(frozen=True)
class AttackSummary:
    """One attack in one ball, or the best of all.

    Attributes:
        n: samples attacked.
        mean, worst: of the largest deviation of each sample.
        mean_of_means: of the mean over repeats, which the paper compares with; None for the
            best of all.
        degrees, worst_degrees: median and largest over samples of the largest angle of each;
            180 where a map has no direction.
        open: samples whose angle is 180 degrees, because a map vanished.
        labels_kept: share of samples whose label the furthest perturbation kept.
        kendall, topk: mean similarity of the maps at the furthest perturbation.
        seconds: in total; None for the best of all.
        subject: ``yours`` or ``copy``: whose maps were attacked.
    """

    attack: str
    n: int
    mean: float | None
    worst: float | None
    mean_of_means: float | None
    degrees: float | None
    worst_degrees: float | None
    open: int
    labels_kept: float | None
    kendall: float | None
    topk: float | None
    seconds: float | None
    subject: str


@dataclass(frozen=True)
class CopySummary:
    """How far a smooth copy is from the network it stands for.

    Attributes:
        n: samples compared.
        labels: how many have the same label.
        degrees, worst_degrees: median and largest angle between the maps at the sample.
        ball_degrees, worst_ball_degrees: the same of the largest angle at random points of the
            ball.
    """

    n: int
    labels: int
    degrees: float
    worst_degrees: float
    ball_degrees: float
    worst_ball_degrees: float


@dataclass(frozen=True)
class Summary:
    """One attribution in one ball.

    Attributes:
        n: samples, failed ones included.
        errors: samples that failed; they are in no other number.
        misclassified: samples whose prediction is not their label.
        open: samples whose attacked map, or map, has no direction.
        attribution_norm: mean Euclidean norm of the clean attribution of what was bounded.
        best: the best attack on what was bounded of each sample; None if none was made.
        yours: with a smooth copy, the best attack on the user's own network.
        averaged: the best attack on the averaged map of the user's own network.
        fidelity: with a smooth copy, how far it is from the user's network.
        attacks: each attack, by name.
        claims: each claim, by name, the weakest promise first.
    """

    attribution: str
    ball: str
    epsilon: float
    n: int
    errors: int
    misclassified: int
    open: int
    attribution_norm: float | None
    best: AttackSummary | None
    yours: AttackSummary | None
    averaged: AttackSummary | None
    fidelity: CopySummary | None
    attacks: dict[str, AttackSummary]
    claims: dict[str, ClaimSummary]

    @property
    def setting(self) -> Setting:
        """Which cell it sums up."""
        return Setting(self.attribution, self.ball, self.epsilon)

    def record(self) -> dict[str, Any]:
        """Plain values for JSON, which has no infinity: it becomes the text ``inf``."""
        found: dict[str, Any] = _plain(asdict(self))
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


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value
