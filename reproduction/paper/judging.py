"""What judging a claim of the paper takes: verdicts, and the numbers of all models and balls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reproduction.paper.items import RunSpec
from reproduction.paper.lookup import Place, Protocol, models_of, numbers
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import HIGH, LOW, Numbers, Values
from reproduction.paper.values import RADII

HOLDS, HERE, FAILS, UNKNOWN = "holds", "holds here", "fails", "not measured yet"
#: What was found points the way of the claim, but chance alone would, too.
UNDECIDED = "not significant"


@dataclass(frozen=True)
class PaperVerdict:
    """What became of one claim.

    Attributes:
        name: of the claim.
        claim: what the paper says.
        attacks: ``paper`` or ``strong``; empty where none matter.
        verdict: ``holds here`` is for claims about every sample without a counterexample in
            ours; such a claim cannot be confirmed by samples.
        n: how many samples, models or cells were looked at.
        text: the numbers in words.
        numbers: the numbers.
        made: how many attacks are behind it, each repeat on each sample in each ball.
    """

    name: str
    claim: str
    attacks: str
    verdict: str
    n: int
    text: str
    numbers: dict[str, Any] = field(default_factory=dict)
    made: int = 0


@dataclass(frozen=True)
class Judged:
    """One model in one ball."""

    data: str
    model: str
    norm: str
    epsilon: str
    numbers: Numbers

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.data}/{self.model}, {self.norm} {self.epsilon}"

    def __getitem__(self, key: str) -> float:
        value = self.numbers.get(key)
        return float("nan") if value is None else value


def shown_share(cell: Judged, key: str) -> str:
    """A share with its 95 % interval and where it is."""
    ends = "-".join(f"{cell[key + end]:.0f}" for end in (LOW, HIGH))
    return f"{cell[key]:.1f} % (95 %: {ends}; n = {cell['n']:.0f}, {cell.where})"


def cells(runs: Runs, norm: str, protocol: Protocol) -> list[Judged]:
    """Every model in every ball of the paper of which there are numbers."""
    found = []
    for data, radii in RADII.items():
        for model in models_of(runs.plan, data):
            if runs.table(RunSpec(data, model, protocol)) is None:
                continue
            for epsilon in radii[norm]:
                own, _ = numbers(runs, Place(data, norm, epsilon), model, protocol)
                if own.get("n"):
                    found.append(Judged(data, model, norm, epsilon, own))
    return found


def judged(
    name: str, claim: str, attacks: str, n: int, found: tuple[str, str, Any]
) -> PaperVerdict:
    """A verdict, its text and numbers; without anything to judge by it is open."""
    if not n:
        return PaperVerdict(name, claim, attacks, UNKNOWN, 0, "no run yet")
    verdict, text, values = found
    return PaperVerdict(name, claim, attacks, verdict, n, text, values)


def attacks_behind(runs: Runs, protocol: Protocol, *norms: str) -> int:
    """How many attacks were made in balls of some norms; ours count the paper's, too."""
    protocols: tuple[Protocol, ...] = ("paper",) if protocol == "paper" else ("paper", "strong")
    made = (cell["attacks"] for p in protocols for norm in norms for cell in cells(runs, norm, p))
    return int(sum(each for each in made if each == each))  # noqa: PLR0124 - NaN without any


def records(runs: Runs, kind: str) -> Iterator[Any]:
    """The small measurements of one kind, of all models that have them."""
    for data in RADII:
        for model in models_of(runs.plan, data):
            rows = runs.table(RunSpec(data, model, kind))
            if rows is not None:
                yield rows


def joined(rows: Sequence[Any], ratio: Callable[[Any], Values]) -> Values:
    """A ratio of every row of several tables, where it is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [ratio(each) for each in rows]
    whole = np.concatenate(parts) if parts else np.zeros(0)
    return whole[np.isfinite(whole)]


def mean(values: Any) -> float:
    """Zero of nothing."""
    known = np.asarray(list(values), dtype=np.float64)
    return float(known.mean()) if len(known) else 0.0


def plain(value: Any) -> Any:
    """For JSON, which has no NaN."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
