"""The runs behind the tables: found in what is stored, made where missing, or said why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import attribound as ab
from attribound import zoo
from attribound.auditing import AuditSettings
from attribound.basics import Lock, sha256_of, storing
from reproduction.paper.items import RunSpec
from reproduction.paper.joining import joined, without_bounds
from reproduction.paper.measuring import CPU, Measured, in_processes
from reproduction.paper.plan import Plan, Portion
from reproduction.paper.store import StoredTable
from reproduction.paper.watching import watched

#: Why a run is not there that nobody wants.
UNPLANNED = "no such network here"
_LEFT_OUT = "not in the plan"
NOT_YET = "not run yet"
_ZOO = "zoo:"


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """One block of a run.

    Attributes:
        kind: of the plan.
        samples: it has, or would have.
        key: under which it is stored; None if it is not.
        seconds: of a CPU that it took.
        rows: None if it is not there.
    """

    kind: str
    samples: int
    key: str | None
    seconds: float
    rows: pa.Table | None


class Runs:
    """What is stored of a plan in a folder: ``KIND.parquet``, and ``KIND-maps.parquet``.

    A block counts once its rows are there; its maps are stored before. So a process that
    is killed loses the block in flight and nothing else.

    Args:
        plan: what is measured.
        folder: where it is stored.
        samples: at most so many of each kind; more can be added to those that are there.
        measuring: whether figures may measure what only they need.
    """

    def __init__(
        self, plan: Plan, folder: Path, samples: int | None = None, *, measuring: bool = True
    ) -> None:
        self.plan = plan
        self.measuring = measuring
        self.folder = folder
        self.samples = samples
        self._failures: dict[RunSpec, str] = {}
        self._stored: dict[str, StoredTable] = {}
        self._indices: dict[str, dict[str, str]] = {}
        # Every table and verdict asks for these of hundreds of blocks.
        self._planned: dict[RunSpec, tuple[Portion, ...]] = {}
        self._wanted: dict[str, str] = {}
        self._digests: dict[tuple[str, str | None], str] = {}
        self._joined: dict[RunSpec, tuple[tuple[tuple[str, ...], ...], pa.Table | None]] = {}

    def table(self, spec: RunSpec) -> pa.Table | None:
        """The rows of a run so far; None if there are none, and :meth:`why` says why."""
        by_kind: dict[str, list[str]] = {}
        for portion in self._portions(spec):
            if (key := self._key(portion)) is not None:
                by_kind.setdefault(portion.kind, []).append(key)
        what = tuple((kind, *keys) for kind, keys in by_kind.items())
        if self._joined.get(spec, ((), None))[0] != what:  # asked for by every table and verdict
            found = [self._rows(kind, keys) for kind, keys in by_kind.items()]
            self._joined[spec] = what, joined([rows for rows in found if rows is not None])
        return self._joined.get(spec, ((), None))[1]

    def _rows(self, kind: str, keys: list[str]) -> pa.Table | None:
        rows = self._of(kind).rows(keys)
        return without_bounds(rows) if rows is not None and self._attacks_only(kind) else rows

    def _attacks_only(self, kind: str) -> bool:
        return self.plan.kinds[kind].attacks_only

    def maps(self, spec: RunSpec) -> pa.Table | None:
        """The maps that audits kept so far; None if there is none."""
        found = [
            rows
            for portion in self._portions(spec)
            if (key := self._key(portion)) is not None
            if (rows := self._of(_maps(portion.kind)).rows([key])) is not None
        ]
        return pa.concat_tables(found) if found else None

    def blocks(self, spec: RunSpec) -> Iterator[StoredBlock]:
        """All blocks that are planned for a run, with what is there of each."""
        for portion in self._portions(spec):
            key = self._key(portion)
            stored = self._of(portion.kind)
            yield StoredBlock(
                portion.kind,
                portion.settings.limit or 0,
                key,
                0.0 if key is None else float(stored.blocks[key].get(CPU) or 0),
                None if key is None else stored.rows([key]),
            )

    def why(self, spec: RunSpec) -> str:
        """Why a run is not there, for the reader of a table: whoever reads it, on any machine."""
        if not self.plan.has(spec):
            data = self.plan.data.get(spec.data)
            return UNPLANNED if data is None or spec.model not in data.models else _LEFT_OUT
        if spec in self._failures:
            return self._failures[spec]
        planned = self.plan.data[spec.data].models[spec.model]
        settings = self._portions(spec)[0].settings
        missing = _missing(settings) if settings.model.startswith(_ZOO) else planned.awaited
        return missing or NOT_YET

    def complete(
        self,
        specs: Iterable[RunSpec],
        jobs: int = 1,
        say: Callable[[str], None] = lambda _: None,
        kinds: Iterable[str] | None = None,
    ) -> None:
        """Make what is missing, the first block of every run before the second of any.

        What cannot be made is left with its reason.

        Args:
            specs: the runs.
            jobs: processes; each measures one block at a time.
            say: told of every block that is begun, of what it is at a minute later and every
                minute from then, and of every reason.
            kinds: of the plan; default: all.

        Raises:
            StorageError: the system refused to write.
            InputError: another process is at it.
        """
        wanted = [spec for spec in dict.fromkeys(specs) if self.plan.has(spec)]
        of = {*self.plan.kinds} if kinds is None else {*kinds}
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(self.folder)
        try:
            portions = [
                portion
                for portion in self._breadth_first(wanted)
                if portion.kind in of and self._key(portion) is None
            ]

            def begin(place: int) -> bool:
                portion = portions[place]
                wanted = self._begun(portion, f"{place + 1} of {len(portions)}", say)
                if wanted:
                    blocks.begun(place, portion.name)
                return wanted

            with watched(say) as blocks:
                for place, found in in_processes(portions, jobs, begin, blocks.told):
                    blocks.ended(place)
                    self._store(portions[place], found, say)
        finally:
            lock.release()

    def _begun(self, portion: Portion, place: str, say: Callable[[str], None]) -> bool:
        """Whether a block is worth the try."""
        if portion.spec in self._failures:
            return False
        reason = _missing(portion.settings)
        if reason is None:
            say(f"{portion.name} ({place})")
            return True
        self._fail(portion.spec, reason, say)
        return False

    def _fail(self, spec: RunSpec, reason: str, say: Callable[[str], None]) -> None:
        self._failures[spec] = reason
        say(f"{spec.name}: {reason}")

    def _breadth_first(self, specs: Iterable[RunSpec]) -> Iterator[Portion]:
        """All first samples, then all next ones; in each round kinds in the order of the plan."""
        every = [portion for spec in specs for portion in self._portions(spec)]
        order = {kind: i for i, kind in enumerate(self.plan.kinds)}
        return iter(sorted(every, key=lambda each: (each.settings.skip, order[each.kind])))

    def _store(self, portion: Portion, found: Measured, say: Callable[[str], None]) -> None:
        if found.about is None:
            if portion.spec not in self._failures:
                self._fail(portion.spec, found.reason or "", say)
            return
        if found.maps.num_rows:
            self._of(_maps(portion.kind)).append(found.about, found.maps)
        self._of(portion.kind).append(found.about, found.rows)

    def _portions(self, spec: RunSpec) -> tuple[Portion, ...]:
        if spec not in self._planned:
            has = self.plan.has(spec)
            self._planned[spec] = self.plan.portions(spec, self.samples) if has else ()
        return self._planned[spec]

    def _of(self, kind: str) -> StoredTable:
        if kind not in self._stored:
            self._stored[kind] = StoredTable(self.folder / f"{kind}.parquet")
        return self._stored[kind]

    def _key(self, portion: Portion) -> str | None:
        """Where this block is stored: of these settings, and of the weights that are there now."""
        blocks = self._of(portion.kind).blocks
        index = self._indices.setdefault(portion.kind, {})
        for key in blocks.keys() - index.keys():
            index[key] = _settings(blocks[key]["settings"])
        if portion.name not in self._wanted:
            self._wanted[portion.name] = _settings(portion.settings.document())
        wanted, digest = self._wanted[portion.name], self._digest(portion.settings)
        for key, about in blocks.items():
            if index[key] == wanted and digest in (None, about["model"].get("sha256")):
                return key
        return None

    def _digest(self, settings: AuditSettings) -> str | None:
        """The checksum of the weights when they were first there; None before."""
        which = settings.model, settings.weights
        if which not in self._digests:
            found = _digest(settings)
            if found is None:
                return None
            self._digests[which] = found
        return self._digests[which]


def _settings(document: Mapping[str, Any]) -> str:
    """As one text; of the weights only the name, for machines have them in other folders.

    What is None is left out: a setting that audits learnt later is unset in what was stored.
    """
    weights = document["weights"] and Path(document["weights"]).name
    return json.dumps(_set({**document, "weights": weights}), sort_keys=True)


def _set(value: Any) -> Any:
    """Plain data without what is None."""
    if isinstance(value, Mapping):
        return {key: _set(item) for key, item in value.items() if item is not None}
    return [_set(item) for item in value] if isinstance(value, (list, tuple)) else value


def _maps(kind: str) -> str:
    return f"{kind}-maps"


def _missing(settings: AuditSettings) -> str | None:
    """Why the model of a run cannot be loaded; None if nothing is known against it."""
    if settings.model.startswith(_ZOO):
        try:
            zoo.path(settings.model.removeprefix(_ZOO))
        except ab.InputError:
            return "not there yet: make zoo"
    elif settings.weights is not None and not Path(settings.weights).is_file():
        return f"weights are not there: {Path(settings.weights).name}"
    return None


def _digest(settings: AuditSettings) -> str | None:
    """The checksum that the weights have now; None if they are not there, or have no file."""
    if settings.model.startswith(_ZOO):
        try:
            return zoo.card(settings.model.removeprefix(_ZOO)).weights.sha256
        except ab.InputError:
            return None
    file = None if settings.weights is None else Path(settings.weights)
    return None if file is None or not file.is_file() else _sha256(file, file.stat().st_mtime_ns)


@cache
def _sha256(file: Path, changed: int) -> str:  # noqa: ARG001 - a changed file is another
    return sha256_of(file)
