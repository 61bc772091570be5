"""A run on disk: every batch that was finished, whatever happened to its writer."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing.manifest import RUN, Manifest
from attribound.auditing.parts import Parts
from attribound.auditing.rows import KEY, MAPS_SCHEMA, SCHEMA, long, reasons, samples
from attribound.basics.errors import InputError
from attribound.basics.locking import LOCK, Lock
from attribound.basics.packages import package
from attribound.basics.whole_files import clear_leftovers, is_leftover, made_folder, storing

if TYPE_CHECKING:
    from typing_extensions import Self

PARTS, MAPS = "parts", "maps"


class Tables(Protocol):
    """What was measured on one batch."""

    @property
    def rows(self) -> pa.Table: ...
    @property
    def maps(self) -> pa.Table: ...


class Run:
    """The folder of an audit: ``run.json``, ``parts/``, ``maps/``.

    A batch counts once its part is there; its maps are stored before. So ``kill -9`` at
    any moment loses at most the batches in flight. ``open`` only reads, also while another
    process writes; ``create`` and ``resume`` hold the lock until ``close``.
    """

    def __init__(self, path: Path, manifest: Manifest, lock: Lock | None) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._rows = Parts(path / PARTS, manifest.checksum, SCHEMA)
        self._maps = Parts(path / MAPS, manifest.checksum, MAPS_SCHEMA)

    @classmethod
    def create(cls, path: str | os.PathLike[str] | None, manifest: Manifest) -> Self:
        """A new run in a folder that is new or empty; ``None`` is a temporary one.

        A temporary folder goes with the ``Run`` object.

        Raises:
            InputError: something is there already.
            StorageError: the system refused to write.
        """
        if path is None:
            folder = Path(tempfile.mkdtemp(prefix="attribound-run-"))
        else:
            folder = made_folder(Path(path))
        with storing(folder / LOCK):
            lock = Lock(folder)
        try:
            _refuse_used(folder)
            manifest.write(folder)
            run = cls(folder, manifest, lock)
            run._prepare()
        except BaseException:
            lock.release()
            raise
        if path is None:
            weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The run in ``path`` for reading, with every part verified by its footer.

        Raises:
            InputError: it is no run, or has torn or foreign files, which are named.
        """
        folder = Path(path)
        run = cls(folder, Manifest.read(folder), None)
        run._verify()
        return run

    @classmethod
    def resume(cls, path: str | os.PathLike[str], manifest: Manifest) -> Self:
        """The run in ``path``, to go on with it; a new one if none was begun there.

        Raises:
            InputError: settings, model, data or versions differ (named), a file is torn
                or foreign, or another process is at it.
        """
        folder = Path(path)
        if not (folder / RUN).exists():
            return cls.create(folder, manifest)
        stored = Manifest.read(folder)
        differences = stored.differences(manifest)
        if differences:
            raise InputError(
                f"run {folder}",
                expected="the settings, model, data and versions it was begun with",
                got="; ".join(differences),
                remedy="resume with what it was begun with, or choose another folder",
            )
        with storing(folder / LOCK):
            lock = Lock(folder)
        try:
            run = cls(folder, stored, lock)
            run._prepare()
            run._verify()
        except BaseException:
            lock.release()
            raise
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        done, total = len(self.done()), self.manifest.batches
        return f"Run({str(self.path)!r}, {done} of {total} batches)"

    def close(self) -> None:
        """Let others write; reading goes on working."""
        if self._lock is not None:
            self._lock.release()

    def done(self) -> list[int]:
        """The batches that are stored."""
        return self._rows.numbers()

    def missing(self) -> list[int]:
        """The batches that are not."""
        done = {*self.done()}
        return [number for number in range(self.manifest.batches) if number not in done]

    @property
    def finished(self) -> bool:
        """Whether every batch is stored."""
        return len(self.done()) == self.manifest.batches  # each of them a batch of this run

    @property
    def measured(self) -> int:
        """How many samples are stored."""
        return sum(self.manifest.size(number) for number in self.done())

    def write(self, number: int, measured: Tables) -> None:
        """Store what was measured on batch ``number``, whole or not at all.

        Raises:
            InputError: this ``Run`` was opened for reading, or is closed.
            StorageError: the system refused, for instance a full disk.
        """
        if self._lock is None or not self._lock.held:
            raise InputError(
                f"run {self.path}",
                expected="a run that this process may write",
                got="one opened for reading, or closed",
                remedy="use Run.create or Run.resume",
            )
        self._check_rows(number, measured.rows.num_rows)
        # Maps first: a batch is done when its rows are there, and then nothing is missing.
        if measured.maps.num_rows:
            self._maps.write(number, measured.maps)
        self._rows.write(number, measured.rows)

    def rows(self) -> pa.Table:
        """All rows so far, by sample, attribution, ball and epsilon, with their records."""
        return _ordered(self._rows.read(self.done()))

    def samples(self) -> pa.Table:
        """One line a sample, attribution and ball: predictions and the strongest attack."""
        return samples(self.rows())

    def bounds(self) -> pa.Table:
        """One line a bound."""
        return long(self.rows(), "bounds")

    def attacks(self) -> pa.Table:
        """One line an attack."""
        return long(self.rows(), "attacks")

    def reasons(self) -> pa.Table:
        """One line a reason, with the name of its score if the data has names; see ``keep``."""
        return reasons(self.rows(), self.manifest.score_names)

    def maps(self) -> pa.Table:
        """Inputs, perturbations and attributions of the samples they were stored for."""
        stored = {*self._maps.numbers()}
        return _ordered(self._maps.read([n for n in self.done() if n in stored]))

    def to_pandas(self, what: str = "samples") -> Any:
        """``samples``, ``bounds``, ``attacks`` or ``reasons`` as a pandas ``DataFrame``."""
        package("pandas", extra="frames", purpose="a table as a pandas DataFrame")
        return self._table(what).to_pandas()

    def to_polars(self, what: str = "samples") -> Any:
        """``samples``, ``bounds``, ``attacks`` or ``reasons`` as a polars ``DataFrame``."""
        polars = package("polars", extra="frames", purpose="a table as a polars DataFrame")
        return polars.from_arrow(self._table(what))

    def _table(self, what: str) -> pa.Table:
        tables = {
            "samples": self.samples,
            "bounds": self.bounds,
            "attacks": self.attacks,
            "reasons": self.reasons,
        }
        if what not in tables:
            raise InputError(
                "table",
                expected=f"one of {', '.join(tables)}",
                got=repr(what),
                remedy="choose one",
            )
        return tables[what]()

    def _prepare(self) -> None:
        clear_leftovers(self.path)
        for folder in (self._rows.folder, self._maps.folder):
            with storing(folder):
                folder.mkdir(exist_ok=True)
            clear_leftovers(folder)

    def _verify(self) -> None:
        for number in self.done():
            self._check_rows(number, self._rows.verify(number))
        for number in self._maps.numbers():
            self._maps.verify(number)

    def _check_rows(self, number: int, rows: int) -> None:
        known = range(self.manifest.batches)
        expected = self.manifest.size(number) * self.manifest.rows_per_sample
        if number not in known or rows != expected:
            raise InputError(
                str(self._rows.path(number)),
                expected=f"{expected} rows" if number in known else f"a batch below {len(known)}",
                got=f"{rows} rows" if number in known else f"batch {number}",
                remedy="it is no part of this run: delete it and resume",
            )


def _ordered(rows: pa.Table) -> pa.Table:
    # By the keys alone: tables with records can't be sorted as a whole.
    order = [(name, "ascending") for name in KEY]
    return rows.take(pc.sort_indices(rows.select(list(KEY)), sort_keys=order)).combine_chunks()


def is_run(folder: Path) -> bool:
    """Whether a run was begun in ``folder``."""
    return (folder / RUN).is_file()


def _refuse_used(folder: Path) -> None:
    """Refuse a folder with anything in it; what a killed ``create`` left is nothing."""
    if is_run(folder):
        raise InputError(
            f"run {folder}",
            expected="a new folder",
            got="one with a run in it",
            remedy="resume it (--resume, or resume=True), or choose another folder",
        )
    foreign = [p.name for p in folder.iterdir() if p.name != LOCK and not is_leftover(p)]
    if foreign:
        raise InputError(
            f"run {folder}",
            expected="a new or empty folder",
            got=f"{', '.join(sorted(foreign)[:5])} in it",
            remedy="choose another folder",
        )
