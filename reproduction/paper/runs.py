"""The runs behind the tables: found, made where they are missing, or said why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from attribound import zoo
from attribound.auditing.audit import audit
from attribound.auditing.engines import Engine
from attribound.auditing.settings import AuditSettings, dump_settings
from attribound.auditing.store import Run, is_run
from attribound.basics.errors import AttriboundError, InputError
from attribound.basics.whole_files import StorageError
from reproduction.paper.items import RECORDS, RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.records import RECORD, measure_record, read_record

#: Why a run is not there that nobody wants.
UNPLANNED = "no such network here"
_LEFT_OUT = "not in the plan"
_ZOO = "zoo:"


@dataclass(frozen=True)
class Block:
    """Some samples of a run, stored in a folder of their own."""

    path: Path
    spec: RunSpec
    settings: AuditSettings

    def make(self, engine: Engine | None, progress: bool | Console) -> str | None:
        """Measure what is missing of it; None, or the reason why that failed.

        Raises:
            StorageError: the system refused to write.
        """
        try:
            if self.spec.kind in RECORDS:
                measure_record(self.spec.kind, self.settings, self.path)
            else:
                audit(self.settings, out=self.path, resume=True, engine=engine, progress=progress)
        except StorageError:
            raise
        except AttriboundError as error:  # the others can still be made
            return str(error)
        return None


class Runs:
    """The runs of a plan in a folder; one serves all tables that need it.

    Args:
        plan: what they are made of.
        folder: where they are.
        samples: at most so many in each; more can be added to those that are there.
    """

    def __init__(self, plan: Plan, folder: Path, samples: int | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self.samples = samples
        self._failures: dict[RunSpec, str] = {}
        self._tables: dict[RunSpec, pa.Table | None] = {}

    def blocks(self, spec: RunSpec) -> list[Block]:
        """The runs that it is stored in."""
        own = self.folder / spec.data / spec.model
        return [
            Block(own / f"{spec.kind}-{each.skip}-{each.skip + (each.limit or 0)}", spec, each)
            for each in self.plan.blocks(spec, self.samples)
        ]

    def table(self, spec: RunSpec) -> pa.Table | None:
        """The rows of a run so far; None if there are none, and :meth:`why` says why."""
        if spec not in self._tables:
            self._tables[spec] = self._read(spec)
        return self._tables[spec]

    def maps(self, spec: RunSpec) -> pa.Table | None:
        """The maps that an audit kept so far; None if there is none."""
        found = [run.maps() for run in self._audits(spec)]
        return pa.concat_tables(found) if found else None

    def why(self, spec: RunSpec) -> str:
        """Why a run is not there, for the reader of a table."""
        if not self.plan.has(spec):
            data = self.plan.data.get(spec.data)
            return UNPLANNED if data is None or spec.model not in data.models else _LEFT_OUT
        if spec in self._failures:
            return self._failures[spec]
        return _missing(self.plan.settings(spec)) or "not run yet"

    def complete(
        self,
        specs: Iterable[RunSpec],
        engine: Engine | None = None,
        say: Callable[[str], None] = lambda _: None,
        progress: bool | Console = False,
    ) -> None:
        """Make what is missing of these runs; what cannot be made is left with its reason.

        Raises:
            StorageError: the system refused to write.
        """
        for spec in dict.fromkeys(specs):
            if not self.plan.has(spec):
                continue
            reason = _missing(self.plan.settings(spec))
            for block in self.blocks(spec):
                if reason is None and not self._finished(block):
                    say(f"{spec.name}: {block.settings.limit} samples")
                    reason = block.make(engine, progress)
            self._tables.pop(spec, None)
            if reason is not None:
                self._failures[spec] = reason
                say(f"{spec.name}: {reason}")

    def _finished(self, block: Block) -> bool:
        if block.spec.kind in RECORDS:
            return False  # cheap to ask again: it measures what is missing
        found = self._audit(block)
        return found is not None and found.finished

    def _read(self, spec: RunSpec) -> pa.Table | None:
        if not self.plan.has(spec):
            return None
        if spec.kind in RECORDS:
            found = [
                rows
                for block in self.blocks(spec)
                if (rows := self._record(block)) is not None and rows.num_rows
            ]
        else:
            found = [run.table() for run in self._audits(spec) if run.done()]
        return pa.concat_tables(found) if found else None

    def _record(self, block: Block) -> pa.Table | None:
        if not (block.path / RECORD).is_file():
            return None
        document, rows = read_record(block.path)
        return rows if self._current(block, document["settings"], document["model"]) else None

    def _audits(self, spec: RunSpec) -> list[Run]:
        blocks = self.blocks(spec) if self.plan.has(spec) else []
        return [found for block in blocks if (found := self._audit(block)) is not None]

    def _audit(self, block: Block) -> Run | None:
        if not is_run(block.path):
            return None
        found = Run.open(block.path)
        known = found.manifest
        return found if self._current(block, known.settings, known.model) else None

    def _current(self, block: Block, stored: Any, model: Any) -> bool:
        """Whether a run is of this plan and of the weights that are there now."""
        wanted = block.settings
        # Where the weights lie may differ between machines; what they are is checked below.
        same = {**dump_settings(wanted), "weights": None} == {**stored, "weights": None}
        digest = _digest(wanted.model)
        if same and digest in (None, model.get("sha256")):
            return True
        self._failures[block.spec] = f"{block.path} has other settings or weights: delete it"
        return False


def _missing(settings: AuditSettings) -> str | None:
    """Why the model of a run cannot be loaded; None if nothing is known against it."""
    if settings.model.startswith(_ZOO):
        try:
            zoo.path(settings.model.removeprefix(_ZOO))
        except InputError:
            return "not there yet: make zoo"
    elif settings.weights is not None and not Path(settings.weights).is_file():
        return f"weights are not there: {Path(settings.weights).name}"
    return None


def _digest(model: str) -> str | None:
    """The checksum that a model of the zoo has now; None if it is not there, or no such model."""
    if not model.startswith(_ZOO):
        return None
    try:
        return zoo.card(model.removeprefix(_ZOO)).weights.sha256
    except InputError:
        return None
