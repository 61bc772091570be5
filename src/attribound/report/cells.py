"""A run's rows by setting: one group per attribution and norm, one cell per radius in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from attribound.bounding.first_order.sensitivity import RANGE_CERTIFICATE
from attribound.report.claims import MOVES, Moves, present
from attribound.report.radius import Values


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of one attribution, norm and radius, sorted, those with an error included."""

    epsilon: float
    rows: pa.Table

    def numbers(self, column: str) -> Values:
        """A column as floats; NaN where there is none."""
        values = pc.cast(self.rows[column], pa.float64())
        found: Values = values.to_numpy().astype(np.float64)
        return found

    def texts(self, column: str) -> list[str | None]:
        """A column of strings."""
        found: list[str | None] = self.rows[column].to_pylist()
        return found

    def broken(self, claim: str) -> NDArray[np.bool_]:
        """Where an attack went beyond the bound of ``claim``."""
        return np.nan_to_num(self.numbers(f"{claim}_broken")).astype(bool)


@dataclass(frozen=True, eq=False)
class Group:
    """One attribution in balls of one norm, by radius."""

    attribution: str
    norm: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """Attribution and norm, for people."""
        return f"{self.attribution}, {self.norm}"

    @property
    def claims(self) -> tuple[str, ...]:
        """The bounds that were asked for."""
        return present(self.cells[0].rows.column_names)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The measured radii, rising."""
        return tuple(cell.epsilon for cell in self.cells)

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """Every sample of the group, rising."""
        parts = [cell.rows["sample"].to_numpy() for cell in self.cells]
        found: NDArray[np.int64] = np.unique(np.concatenate(parts))
        return found

    @property
    def linear(self) -> bool:
        """Whether first-order bounds are linear in the radius: no value range cut the ball."""
        if "first_order" not in self.claims:
            return True
        return all(RANGE_CERTIFICATE not in cell.texts("first_order_source") for cell in self.cells)

    def by_radius(self, column: str) -> dict[float, Values]:
        """A column at every radius, aligned with ``samples``; NaN where it is missing."""
        found = {}
        for cell in self.cells:
            values = np.full(len(self.samples), np.nan)
            values[np.searchsorted(self.samples, cell.rows["sample"].to_numpy())] = cell.numbers(
                column
            )
            found[cell.epsilon] = values
        return found

    def constant(self, column: str) -> Values:
        """A column that is the same at every radius, aligned with ``samples``."""
        found: Values = np.fmax.reduce(list(self.by_radius(column).values()))
        return found

    def moves(self, claim: str) -> Moves:
        """What is known of a claim between the measured radii."""
        return MOVES[claim]


def groups(table: pa.Table) -> tuple[Group, ...]:
    """The rows of a run by attribution and norm, in the order of their names."""
    ordered = table.sort_by([(key, "ascending") for key in ("attribution", "norm", "epsilon")])
    found: dict[tuple[str, str], dict[float, pa.Table]] = {}
    keys = ordered.select(["attribution", "norm", "epsilon"]).group_by(
        ["attribution", "norm", "epsilon"], use_threads=False
    )
    for key in keys.aggregate([]).to_pylist():
        chosen = _where(ordered, key).sort_by("sample")
        found.setdefault((key["attribution"], key["norm"]), {})[key["epsilon"]] = chosen
    return tuple(
        Group(attribution, norm, tuple(Cell(radius, rows) for radius, rows in sorted(by.items())))
        for (attribution, norm), by in found.items()
    )


def _where(table: pa.Table, key: dict[str, object]) -> pa.Table:
    chosen = None
    for column, value in key.items():
        same = pc.equal(table[column], pa.scalar(value))
        chosen = same if chosen is None else pc.and_(chosen, same)
    return table.filter(chosen)
