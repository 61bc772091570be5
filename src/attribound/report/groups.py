"""The rows of a run by attribution and ball, and what is said of the claims in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attribound.auditing import Cell, cells
from attribound.auditing.rows import AVERAGED, COPY, YOURS
from attribound.bounding.first_order.sensitivity import RANGE_CERTIFICATE
from attribound.report.subjects import network
from attribound.results import Claim, claims

Numbers = NDArray[np.float64]
_LAST = 1000  # in tables, after all claims that are known


@dataclass(frozen=True, eq=False)
class Group:
    """One attribution in balls of one name, by radius."""

    attribution: str
    ball: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """Attribution and ball, for people."""
        return f"{self.attribution}, {self.ball}"

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that were made, the weakest promise first."""
        return records(name for cell in self.cells for name in cell.claims)

    @property
    def plain(self) -> tuple[Claim, ...]:
        """Those about plain maps: what is plotted against attacks on these."""
        return tuple(claim for claim in self.claims if self.subject(claim) != AVERAGED)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The measured radii, rising."""
        return tuple(cell.epsilon for cell in self.cells)

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """Every sample of the group, rising."""
        found: NDArray[np.int64] = np.unique([i for cell in self.cells for i in cell.samples])
        return found

    @cached_property
    def linear(self) -> bool:
        """Whether scaled bounds are linear in the radius: no value range cut the ball."""
        return not any(
            RANGE_CERTIFICATE in cell.bound_texts(claim, "source")
            for cell in self.cells
            for claim in cell.claims
        )

    def by_radius(self, read: Callable[[Cell], Numbers]) -> dict[float, Numbers]:
        """What ``read`` gives at every radius, aligned with ``samples``; NaN where missing."""
        found = {}
        for cell in self.cells:
            values = np.full(len(self.samples), np.nan)
            values[np.searchsorted(self.samples, cell.samples)] = read(cell)
            found[cell.epsilon] = values
        return found

    def bounds(self, claim: Claim, field: str = "euclidean") -> dict[float, Numbers]:
        """A field of the bounds under a claim at every radius."""
        return self.by_radius(lambda cell: cell.bound(claim.name, field))

    def attacks(self, field: str = "deviation") -> dict[float, Numbers]:
        """A field of the strongest attacks on what was bounded at every radius."""
        return self.by_radius(lambda cell: cell.strongest(field))

    def yours(self, field: str = "deviation") -> dict[float, Numbers]:
        """A field of the strongest attacks on the user's own network at every radius."""
        return self.by_radius(lambda cell: cell.yours(field))

    @cached_property
    def has_copy(self) -> bool:
        """Whether a smooth copy stood for the user's network."""
        return any(cell.has_copy for cell in self.cells)

    def subject(self, claim: Claim) -> str:
        """Of which network the bounds under a claim speak: of yours only if all do."""
        found = {subject for cell in self.cells for subject in cell.subjects(claim.name)}
        if found == {AVERAGED}:
            return AVERAGED
        return COPY if self.has_copy and found != {YOURS} else YOURS

    def title_of(self, claim: Claim, copy: str) -> str:
        """What a claim is called, with its network if there is more than one."""
        if not self.has_copy and self.subject(claim) == YOURS:
            return claim.title
        return f"{claim.title}, of {network(self.subject(claim), copy)}"

    def constant(self, column: str) -> Numbers:
        """A column that is the same at every radius, aligned with ``samples``."""
        found = self.by_radius(lambda cell: cell.numbers(column))
        same: Numbers = np.fmax.reduce(list(found.values()))
        return same


def groups(rows: pa.Table) -> tuple[Group, ...]:
    """The rows of a run by attribution and ball, in the order of their names."""
    by_name = groupby(cells(rows), key=lambda cell: (cell.attribution, cell.ball))
    return tuple(Group(*names, tuple(members)) for names, members in by_name)


def records(names: Iterable[str]) -> tuple[Claim, ...]:
    """The records of these claims, each once, the weakest promise first."""
    found = (claim_record(name) for name in dict.fromkeys(names))
    return tuple(sorted(found, key=lambda claim: (claim.order, claim.name)))


def claim_record(name: str) -> Claim:
    """What is to be said of a claim; little if its module is not imported here."""
    known = {claim.name: claim for claim in claims()}
    return known.get(name) or Claim(
        name,
        title=name,
        order=_LAST,
        promise="Not known here: the module that enters this claim is not imported.",
    )
