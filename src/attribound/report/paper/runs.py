"""The runs behind the tables: found, made where they are missing, or said why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from attribound import zoo
from attribound.errors import AttriboundError, InputError
from attribound.evaluation.atomic import StorageError
from attribound.evaluation.audit import audit
from attribound.evaluation.engines import Engine
from attribound.evaluation.settings import AuditSettings, dump_settings
from attribound.evaluation.store import Run, is_run
from attribound.report.paper.items import RECORDS, RunSpec
from attribound.report.paper.plan import Plan
from attribound.report.paper.records import RECORD, measure_record, read_record

#: Why a run is not there that nobody wants.
UNPLANNED = "no such network here"
_ZOO = "zoo:"


class Runs:
    """The runs of a plan in a folder; one serves all tables that need it.

    Args:
        plan: what they are made of.
        folder: where they are.
        samples: at most so many in each; runs of other sizes lie beside each other.
    """

    def __init__(self, plan: Plan, folder: Path, samples: int | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self.samples = samples
        self._failures: dict[RunSpec, str] = {}
        self._tables: dict[RunSpec, pa.Table | None] = {}

    def path(self, spec: RunSpec) -> Path:
        """Where a run is or will be."""
        size = self.plan.samples(spec, self.samples)
        return self.folder / spec.data / spec.model / f"{spec.kind}-{size}"

    def table(self, spec: RunSpec) -> pa.Table | None:
        """The rows of a run so far; None if there are none, and :meth:`why` says why."""
        if spec not in self._tables:
            self._tables[spec] = self._read(spec)
        return self._tables[spec]

    def run(self, spec: RunSpec) -> Run | None:
        """An audit with its maps; None if there is none."""
        if not self.plan.has(spec) or not is_run(self.path(spec)):
            return None
        found = Run.open(self.path(spec))
        return found if self._current(spec, found.manifest.settings, found.manifest.model) else None

    def why(self, spec: RunSpec) -> str:
        """Why a run is not there, for the reader of a table."""
        if not self.plan.has(spec):
            return UNPLANNED
        if spec in self._failures:
            return self._failures[spec]
        return _missing(self.plan.settings(spec, self.samples)) or "not run yet"

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
            settings = self.plan.settings(spec, self.samples)
            reason = _missing(settings)
            if reason is None and not self._finished(spec):
                say(f"{spec.name}: {settings.limit} samples")
                reason = self._make(spec, settings, engine, progress)
            self._tables.pop(spec, None)
            if reason is not None:
                self._failures[spec] = reason
                say(f"{spec.name}: {reason}")

    def _make(
        self,
        spec: RunSpec,
        settings: AuditSettings,
        engine: Engine | None,
        progress: bool | Console,
    ) -> str | None:
        try:
            if spec.kind in RECORDS:
                measure_record(spec.kind, settings, self.path(spec))
            else:
                audit(settings, out=self.path(spec), resume=True, engine=engine, progress=progress)
        except StorageError:
            raise
        except AttriboundError as error:  # the others can still be made
            return str(error)
        return None

    def _finished(self, spec: RunSpec) -> bool:
        if spec.kind in RECORDS:
            return False  # cheap to ask again: it measures what is missing
        found = self.run(spec)
        return found is not None and found.finished

    def _read(self, spec: RunSpec) -> pa.Table | None:
        if not self.plan.has(spec):
            return None
        if spec.kind in RECORDS:
            if not (self.path(spec) / RECORD).is_file():
                return None
            document, rows = read_record(self.path(spec))
            current = self._current(spec, document["settings"], document["model"])
            return rows if current and rows.num_rows else None
        found = self.run(spec)
        return found.table() if found is not None and found.done() else None

    def _current(self, spec: RunSpec, stored: Any, model: Any) -> bool:
        """Whether a run is of this plan and of the weights that are there now."""
        wanted = self.plan.settings(spec, self.samples)
        # Where the weights lie may differ between machines; what they are is checked below.
        same = {**dump_settings(wanted), "weights": None} == {**stored, "weights": None}
        digest = _digest(wanted.model)
        if same and digest in (None, model.get("sha256")):
            return True
        self._failures[spec] = f"{self.path(spec)} has other settings or weights: delete it"
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
