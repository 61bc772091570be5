"""What was measured so far, and what it took: samples of those planned, attacks, CPU-hours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from reproduction.paper.grid import Column, Columns, Grid, Line, Section
from reproduction.paper.items import AUDITS, RECORDS, Item, RunSpec
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import Numbers

_TITLE = "What was measured, and what it took"
_COLUMNS = (
    Column("there", "samples", "samples", 0),
    Column("planned", "of", "of", 0),
    Column("share", "%", r"\%", 0),
    Column("attacks", "attacks", "attacks", 0),
    Column("hours", "CPU-hours", "CPU-hours", 3),
    Column("left", "left", "left", 1),
)
_NOTES = (
    "Samples of all models together, and how many are planned; `make paper` measures the rest.",
    (
        "An attack is one repeat on one sample in one ball. CPU-hours are the time that processes "
        "had a core; left is what the rest would take at the same rate a sample, of the kinds that "
        "have one."
    ),
)


@dataclass(frozen=True)
class Effort:
    """Of one kind of measurement, or of several.

    Attributes:
        planned, there: samples.
        attacks: made on them.
        seconds: of a CPU that it took.
        left: seconds that the rest would take at that rate; None if no sample says.
    """

    planned: int = 0
    there: int = 0
    attacks: int = 0
    seconds: float = 0.0
    left: float | None = None

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.planned + other.planned,
            self.there + other.there,
            self.attacks + other.attacks,
            self.seconds + other.seconds,
            None if self.left is other.left is None else (self.left or 0) + (other.left or 0),
        )

    def with_rest(self) -> Effort:
        """The same, of one kind, with what is left of it."""
        rest = self.planned - self.there
        return replace(self, left=rest * self.seconds / self.there if self.there else None)

    @property
    def numbers(self) -> Numbers:
        """For a table."""
        return {
            "there": float(self.there),
            "planned": float(self.planned),
            "share": 100 * self.there / self.planned if self.planned else None,
            "attacks": float(self.attacks),
            "hours": self.seconds / 3600,
            "left": None if self.left is None else self.left / 3600,
        }


def attacks_in(rows: pa.Table | None) -> int:
    """All repeats of all attacks in some rows of audits."""
    if rows is None or "attacks" not in rows.column_names:
        return 0
    return sum(
        len(record["repeats"] or []) for row in rows["attacks"].to_pylist() for record in row
    )


def efforts(runs: Runs, data: str) -> dict[str, Effort]:
    """Of each kind that is planned for some data, over all models."""
    found: dict[str, Effort] = {}
    for spec in runs.plan.of_data(data, (*AUDITS, *RECORDS)):
        for block in runs.blocks(spec):
            there = block.key is not None
            own = Effort(
                planned=block.samples,
                there=block.samples if there else 0,
                attacks=attacks_in(block.rows),
                seconds=block.seconds,
            )
            found[block.kind] = found.get(block.kind, Effort()) + own
    return {kind: own.with_rest() for kind, own in found.items()}


def grid(runs: Runs) -> Grid:
    """A block for each data set, a row for each kind, and all of it last."""
    blocks, whole = [], Effort()
    for data, plan in runs.plan.data.items():
        found = efforts(runs, data)
        rows = tuple(Line(kind, (own.numbers,), ({},)) for kind, own in found.items())
        whole = sum(found.values(), whole)
        blocks.append(Section(plan.title, (Columns("", _COLUMNS),), rows))
    total = Line("all", (whole.numbers,), ({},))
    blocks.append(Section("All", (Columns("", _COLUMNS),), (total,)))
    return Grid("effort", _TITLE, tuple(blocks), _NOTES)


def make(runs: Runs, folder: Path) -> list[Path]:
    """``effort`` as Markdown, LaTeX and JSON."""
    return grid(runs).write(folder)


_NONE: tuple[RunSpec, ...] = ()  # it counts what others need
ITEM = Item("effort", _TITLE, _NONE, make)
