"""The rows of one attribution in one ball, as columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribound.results import claim_named, claims

Numbers = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """What tells the cells of a run apart."""

    attribution: str
    ball: str
    epsilon: float

    @property
    def title(self) -> str:
        """What people call it: attribution, ball and radius."""
        return f"{self.attribution}, {self.within}"

    @property
    def within(self) -> str:
        """Ball and radius alone."""
        return f"{self.ball} ε = {self.epsilon:g}"


@dataclass(frozen=True, eq=False)
class Cell:
    """The samples of one attribution and ball, sorted, those with an error included.

    Numbers are aligned with the samples, NaN where there is none.
    """

    attribution: str
    ball: str
    epsilon: float
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def setting(self) -> Setting:
        """Which cell it is."""
        return Setting(self.attribution, self.ball, self.epsilon)

    @property
    def samples(self) -> list[int]:
        """Their indices in the data."""
        found: list[int] = self.rows["sample"].to_pylist()
        return found

    @property
    def errors(self) -> list[str | None]:
        """Why a sample could not be measured; None if it was."""
        found: list[str | None] = self.rows["error"].to_pylist()
        return found

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the claims that were made, the weakest promise first."""
        found = {record["claim"] for row in self._bounds for record in row}
        known = [each.name for each in claims()]
        foreign = sorted(found - {*known})  # of a module that is not imported here
        return tuple(name for name in (*known, *foreign) if name in found)

    @property
    def attacks(self) -> tuple[str, ...]:
        """The names of the attacks that were made."""
        return tuple(dict.fromkeys(each["attack"] for row in self._attacks for each in row))

    def numbers(self, column: str) -> Numbers:
        """A column of the samples."""
        values: Numbers = pc.cast(self.rows[column], pa.float64()).to_numpy().astype(np.float64)
        return values

    def strongest(self, field: str) -> Numbers:
        """A field of the strongest attack of each sample."""
        return self._struct("strongest", field)

    def yours(self, field: str) -> Numbers:
        """A field of the strongest attack on the user's own network."""
        return self._struct("yours", field)

    def averaged(self, field: str) -> Numbers:
        """A field of the strongest attack on the averaged map of the user's own network."""
        return self._struct("averaged", field)

    @property
    def has_copy(self) -> bool:
        """Whether a smooth copy stood for the user's network."""
        return bool(pc.any(pc.is_valid(self.rows["fidelity"])).as_py())

    def subjects(self, claim: str) -> set[str]:
        """Of which networks the bounds under a claim speak."""
        return {str(text) for text in self.bound_texts(claim, "subject") if text is not None}

    def fidelity(self, field: str) -> Numbers:
        """A field of the comparison with the network that a smooth copy stands for."""
        return self._struct("fidelity", field)

    def bound(self, claim: str, field: str = "euclidean") -> Numbers:
        """A field of the bounds under a claim."""
        return _aligned(self._bounds, "claim", claim, field)

    def bound_texts(self, claim: str, field: str) -> list[str | None]:
        """The same for a field of texts."""
        return [_found(row, "claim", claim).get(field) for row in self._bounds]

    def exceeded(self, claim: str) -> npt.NDArray[np.bool_]:
        """Where an attack went beyond the bound under a claim."""
        return np.nan_to_num(self.bound(claim, "exceeded")).astype(bool)

    def yours_exceeded(self, claim: str) -> npt.NDArray[np.bool_]:
        """Where an attack on the user's own network went beyond the bound under a claim."""
        return np.nan_to_num(self.bound(claim, "yours_exceeded")).astype(bool)

    def either_exceeded(self, claim: str) -> npt.NDArray[np.bool_]:
        """Where an attack did, on what the bound speaks of or on the user's own network."""
        return self.exceeded(claim) | self.yours_exceeded(claim)

    def attack(self, name: str, field: str = "deviation") -> Numbers:
        """A field of one attack."""
        return _aligned(self._attacks, "attack", name, field)

    def attacked(self, name: str) -> str | None:
        """Which network an attack was made on."""
        subjects = (_found(row, "attack", name).get("subject") for row in self._attacks)
        return next((each for each in subjects if each is not None), None)

    def repeats(self, name: str) -> list[list[dict[str, Any]]]:
        """Of each sample every repeat of one attack."""
        return [_found(row, "attack", name).get("repeats") or [] for row in self._attacks]

    @cached_property
    def reasons(self) -> list[list[dict[str, Any]]]:
        """Of each sample what stays of its list, a record a claim; empty if nobody asked."""
        return [records or [] for records in self.rows["reasons"].to_pylist()]

    @cached_property
    def _bounds(self) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = self.rows["bounds"].to_pylist()
        return found

    @cached_property
    def _attacks(self) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = self.rows["attacks"].to_pylist()
        return found

    def _struct(self, column: str, field: str) -> Numbers:
        inner = pc.struct_field(self.rows[column], field)
        values: Numbers = pc.cast(inner, pa.float64()).to_numpy().astype(np.float64)
        return values


def cells(rows: pa.Table) -> list[Cell]:
    """The rows of a run, one cell per attribution, ball and radius, in that order."""
    names = [*Setting._fields]
    keys = rows.select(names).group_by(names, use_threads=False).aggregate([])
    found = []
    for setting in sorted(Setting(**key) for key in keys.to_pylist()):
        mask = None
        for name, value in setting._asdict().items():
            same = pc.equal(rows[name], pa.scalar(value))
            mask = same if mask is None else pc.and_(mask, same)
        found.append(Cell(*setting, rows.filter(mask)))
    return found


def title_of(claim: str) -> str:
    """What people call a claim; its name if its module is not imported here."""
    return claim_named(claim).title if claim in {each.name for each in claims()} else claim


def _found(records: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    return next((record for record in records if record[key] == name), {})


def _aligned(rows: list[list[dict[str, Any]]], key: str, name: str, field: str) -> Numbers:
    values = [_found(row, key, name).get(field) for row in rows]
    return np.array([np.nan if value is None else float(value) for value in values])
