"""Two or more runs side by side, with intervals on what differs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text
from scipy import stats

from attribound.auditing import Cell, Run, cells
from attribound.auditing.cells import Setting
from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.auditing.summary import OPEN
from attribound.basics.errors import InputError
from attribound.report.groups import Numbers, records
from attribound.report.subjects import copy_of, network
from attribound.report.summary_table import LEGEND_OF_TWO, number

_LEVEL = 0.95
_OPEN = " open"
_Z = float(stats.norm.ppf(0.5 + _LEVEL / 2))


@dataclass(frozen=True)
class RunDifference:
    """One number of two runs.

    Attributes:
        what: e.g. ``attack`` or ``certified exceeded``.
        first, other: its mean in the first and in the other run, over the samples compared.
        difference: other minus first.
        low, high: 95 % interval of the difference for samples like these.
        n: samples compared (of the smaller run if not paired).
        paired: on the same samples, so that what these have in common cancels.
    """

    run: str
    attribution: str
    ball: str
    epsilon: float
    what: str
    first: float
    other: float
    difference: float
    low: float
    high: float
    n: int
    paired: bool

    @property
    def setting(self) -> Setting:
        """Where it was measured."""
        return Setting(self.attribution, self.ball, self.epsilon)

    @property
    def clear(self) -> bool:
        """Whether zero is outside the interval."""
        return not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Comparison:
    """The first run against each of the others, where they have settings in common."""

    first: str
    others: tuple[str, ...]
    differences: tuple[RunDifference, ...]
    notes: tuple[str, ...]

    def records(self) -> list[dict[str, Any]]:
        """Plain values for JSON, which has no infinity: it becomes the text ``inf``."""
        return [
            {
                **{
                    key: str(value) if isinstance(value, float) and math.isinf(value) else value
                    for key, value in asdict(each).items()
                },
                "clear": each.clear,
            }
            for each in self.differences
        ]

    @property
    def legend(self) -> dict[str, str]:
        """What the numbers mean, by their names or the ends of them."""
        made = " ".join(each.what for each in self.differences)
        return {
            name: text
            for name, text in LEGEND_OF_TWO.items()
            if name.strip(". ") in f"{made} claim"
        }

    def table(self) -> Table:
        """For the console; a star marks differences whose interval leaves out zero."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=None)
        several = len(self.others) > 1
        header = ["setting", "", *(["run"] if several else []), "first", "other", "difference"]
        for name in [*header, "95 % interval", "", "samples"]:
            words = name in ("setting", "", "run")
            table.add_column(Text(name), justify="left" if words else "right")
        before = ""
        for each in self.differences:
            setting = each.setting.title
            row = [
                "" if setting == before else setting,
                each.what,
                *([each.run] if several else []),
                number(each.first),
                number(each.other),
                number(each.difference),
                f"{number(each.low)} to {number(each.high)}",
                "*" if each.clear else "",
                f"{each.n}{' pairs' if each.paired else ''}",
            ]
            table.add_row(*[Text(text) for text in row])
            before = setting
        return table


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare the first of ``runs`` with each of the others.

    Where the data are the same (by fingerprint) samples are paired: the interval is
    Student's of the mean difference, otherwise Welch's. Shares have the adjusted Wald
    intervals of Agresti with Min (paired) and Caffo, which are never of length zero.
    Samples that failed in a run and infinite bounds are left out, of both runs if paired. An
    angle that nothing limits counts as 180 degrees, so that no run gains by what it leaves open;
    the share of these is compared, too, where there are any.

    If a smooth copy stood for a network in one of two runs, every number names its network, and
    only those of networks of the same kind are compared: bounds of a copy never with bounds of
    the network itself.

    Raises:
        InputError: fewer than two runs, or nothing in common.
    """
    if len(runs) < 2:
        raise InputError(
            "runs", expected="two or more", got=str(len(runs)), remedy="give the folders of runs"
        )
    first, notes, found = runs[0], [], []
    ours = by_setting(first)
    for other in runs[1:]:
        theirs = by_setting(other)
        paired = first.manifest.data["fingerprint"] == other.manifest.data["fingerprint"]
        if not paired:
            notes.append(f"{other.path}: other samples than {first.path}, so not paired")
        common = [key for key in ours if key in theirs]
        if not common:
            raise InputError(
                f"run {other.path}",
                expected="an attribution, ball and epsilon that the first run has, too",
                got=_listed(theirs),
                remedy=f"the first has {_listed(ours)}",
            )
        alone = len({*ours} ^ {*theirs})
        if alone:
            notes.append(f"{other.path}: {alone} settings are in one of the runs only")
        copy = _copies(first, other)
        for key in common:
            found += _differences(str(other.path), key, (ours[key], theirs[key]), paired, copy)
    others = tuple(str(run.path) for run in runs[1:])
    return Comparison(str(first.path), others, tuple(found), tuple(notes))


def by_setting(run: Run) -> dict[Setting, Cell]:
    """The cells of a run by what tells them apart."""
    return {cell.setting: cell for cell in cells(run.rows())}


def _listed(settings: dict[Setting, Cell]) -> str:
    names = [f"{attribution} {ball} {epsilon:g}" for attribution, ball, epsilon in settings]
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _copies(one: Run, two: Run) -> str | None:
    """What the smooth copies of two runs are called together; None if neither has one."""
    settings = one.manifest.settings, two.manifest.settings
    names = [copy_of(each) for each in settings if each.get("smooth") is not None]
    if len({*names}) < 2:
        return names[0] if names else None
    betas = " and ".join(f"{each['smooth']:g}" for each in settings)
    return f"smooth copies, β = {betas}"


def _differences(
    run: str, key: Setting, both_cells: tuple[Cell, Cell], paired: bool, copy: str | None
) -> list[RunDifference]:
    mine, theirs = both_cells
    a, b = _columns(mine, copy), _columns(theirs, copy)
    ours, other = (cell.rows["sample"].to_numpy() for cell in (mine, theirs))
    _, at_a, at_b = np.intersect1d(ours, other, assume_unique=True, return_indices=True)
    found = []
    for what in (name for name in a if name in b):
        (x, share), (y, _) = a[what], b[what]
        if paired:
            x, y = x[at_a], y[at_b]
            both = np.isfinite(x) & np.isfinite(y)
            x, y = x[both], y[both]
        else:
            x, y = x[np.isfinite(x)], y[np.isfinite(y)]
        if not len(x) or not len(y) or (what.endswith(_OPEN) and not (x.any() or y.any())):
            continue
        low, high = _INTERVALS[paired, share](x, y)
        means = float(x.mean()), float(y.mean())
        n = min(len(x), len(y))
        found.append(
            RunDifference(run, *key, what, *means, means[1] - means[0], low, high, n, paired)
        )
    return found


def _columns(cell: Cell, copy: str | None) -> dict[str, tuple[Numbers, bool]]:
    """Numbers by name, and whether they are zeros and ones.

    Where a smooth copy is in one of the runs, which are then called ``copy``, the names say of
    which network they are.
    """
    bounded = COPY if cell.has_copy else YOURS
    reads = {YOURS: cell.yours, COPY: cell.strongest} if cell.has_copy else {YOURS: cell.strongest}

    def of(subject: str, word: str = "of") -> str:
        return "" if copy is None else f" {word} {network(subject, copy)}"

    found = {
        "accuracy": (cell.numbers("correct"), True),
        f"|g|{of(bounded)}": (cell.numbers("attribution_norm"), False),
    }
    for subject, read in reads.items():
        on = of(subject, "on")
        found[f"attack{on}"] = (read("deviation"), False)
        found[f"attack{on} °"] = (read("degrees"), False)
        found[f"Kendall{on}"] = (read("kendall"), False)
        found[f"top-k{on}"] = (read("topk"), False)
    for claim in records(cell.claims):
        own = not cell.has_copy or cell.subjects(claim.name) == {YOURS}
        subject = YOURS if own else COPY
        title = f"{claim.title}{of(subject)}"
        if cell.subjects(claim.name) == {AVERAGED}:
            subject, title = AVERAGED, f"{claim.title} of {network(AVERAGED, '')}"
        found[title] = (cell.bound(claim.name), False)
        angles = cell.bound(claim.name, "degrees")
        found[f"{title} °"] = (angles, False)
        found[f"{title}{_OPEN}"] = (np.where(np.isnan(angles), angles, angles >= OPEN), True)
        found[f"{title} exceeded"] = (cell.bound(claim.name, "exceeded"), True)
        if subject == COPY:
            name = f"{title} exceeded{of(YOURS, 'on')}"
            found[name] = (cell.bound(claim.name, "yours_exceeded"), True)
    return found


def _student(x: Numbers, y: Numbers) -> tuple[float, float]:
    return _around(float((y - x).mean()), float((y - x).var(ddof=1)) / len(x), len(x) - 1)


def _welch(x: Numbers, y: Numbers) -> tuple[float, float]:
    u, v = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    freedom = (u + v) ** 2 / (u**2 / (len(x) - 1) + v**2 / (len(y) - 1)) if u + v else math.inf
    return _around(float(y.mean() - x.mean()), float(u + v), float(freedom))


def _paired_shares(x: Numbers, y: Numbers) -> tuple[float, float]:
    """Agresti and Min: half an example more in each cell of the two-by-two table."""
    n = len(x) + 2
    rises, falls = float((y > x).sum()) + 0.5, float((y < x).sum()) + 0.5
    centre = (rises - falls) / n
    return _normal(centre, (rises + falls - (rises - falls) ** 2 / n) / n**2)


def _unpaired_shares(x: Numbers, y: Numbers) -> tuple[float, float]:
    """Agresti and Caffo: a success and a failure more in each run."""
    p, q = ((float(values.sum()) + 1) / (len(values) + 2) for values in (x, y))
    return _normal(q - p, p * (1 - p) / (len(x) + 2) + q * (1 - q) / (len(y) + 2))


_UNKNOWN = (-math.inf, math.inf)
_INTERVALS: dict[tuple[bool, bool], Callable[[Numbers, Numbers], tuple[float, float]]] = {
    (True, False): lambda x, y: _student(x, y) if len(x) > 1 else _UNKNOWN,
    (False, False): lambda x, y: _welch(x, y) if min(len(x), len(y)) > 1 else _UNKNOWN,
    (True, True): _paired_shares,
    (False, True): _unpaired_shares,
}


def _around(centre: float, variance: float, freedom: float) -> tuple[float, float]:
    half = float(stats.t.ppf(0.5 + _LEVEL / 2, freedom)) * math.sqrt(variance)
    return centre - half, centre + half


def _normal(centre: float, variance: float) -> tuple[float, float]:
    half = _Z * math.sqrt(variance)
    return max(centre - half, -1.0), min(centre + half, 1.0)
