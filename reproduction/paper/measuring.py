"""Blocks of the plan, measured here or in several processes: one whole block in each."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import attribound as ab
from attribound import LocalEngine
from attribound.auditing import AtWork, Listener, Work, audit, heard_by, listener, nobody
from attribound.basics import StorageError
from reproduction.paper.items import RECORDS
from reproduction.paper.plan import Portion
from reproduction.paper.records import measure_record

#: In what a block is of: the CPU-seconds it took.
CPU = "cpu_seconds"
_UNWANTED = "not begun: another block of its run could not be measured"


@dataclass(frozen=True)
class Measured:
    """What came of one block: rows, maps and what they are of; or the reason why there is nothing.

    It is what engines give back, as batches of audits are.
    """

    rows: pa.Table
    maps: pa.Table
    about: dict[str, Any] | None = None
    reason: str | None = None


def measured(portion: Portion) -> Measured:
    """Measure one block in this process.

    Raises:
        StorageError: the system refused to write.
    """
    before = _cpu_seconds()
    none = pa.table({})
    try:
        if portion.spec.part in RECORDS:
            about, rows = measure_record(portion.spec.part, portion.settings)
            maps = none
        else:
            run = audit(portion.settings)
            about, rows, maps = _about(run), run.rows(), run.maps() or none
    except StorageError:
        raise
    except ab.AttriboundError as error:  # the others can still be made
        return _nothing(str(error))
    settings = about["settings"]
    if settings["weights"] is not None:  # machines have them in other folders
        settings = {**settings, "weights": Path(settings["weights"]).name}
    about = {
        **about,
        "settings": settings,
        "data_key": portion.spec.data,
        "model_key": portion.spec.model,
        CPU: round(_cpu_seconds() - before, 1),
    }
    return Measured(rows, maps, about)


@dataclass(frozen=True)
class Task:
    """One block as engines hand it on: alone, so that one that kills its process is left out.

    Attributes:
        place: among the blocks.
        portion: None if it is known by now that it cannot be measured.
    """

    place: int
    portion: Portion | None

    def __len__(self) -> int:
        return 1

    def hearing(self, listener: Listener) -> Listener:
        """Hears of the steps of its audit, and tells ``listener`` of them as steps of the block."""
        whole = None if self.portion is None else self.portion.settings
        batches = 1 if whole is None else math.ceil((whole.limit or 1) / whole.batch)

        def told(step: AtWork) -> None:
            done = step.batch * step.steps
            listener(AtWork(self.place, done + step.step, batches * step.steps, step.doing))

        return told


def in_processes(
    portions: Sequence[Portion],
    jobs: int,
    begin: Callable[[int], bool],
    told: Listener = nobody,
) -> Generator[tuple[int, Measured], None, None]:
    """The places of all blocks with what came of them, as they are finished.

    They are begun in this order, ``jobs`` at a time. ``begin`` is asked of each, by its place,
    when its turn comes: whether it is still wanted; ``told`` hears what each is at. One process
    is this one. A block whose process dies is tried again, and then left out with the reason; a
    process that nobody waits for any more ends.
    """
    work = Work(
        measure=_done,
        prepare=_worker,
        batch=lambda number: Task(number, portions[number] if begin(number) else None),
        failed=_given_up,
        told=told,
    )
    results = LocalEngine(jobs).run(work, range(len(portions)))
    try:
        for number, found in results:
            assert isinstance(found, Measured)
            if found.reason != _UNWANTED:
                yield number, found
    finally:
        results.close()


def _done(task: Task) -> Measured:
    if task.portion is None:
        return _nothing(_UNWANTED)
    with heard_by(task.hearing(listener())):
        return measured(task.portion)


def _worker() -> Callable[[Task], Measured]:
    return _done


def _given_up(_: Task, how: str) -> Measured:
    return _nothing(how)


def _nothing(reason: str) -> Measured:
    return Measured(pa.table({}), pa.table({}), reason=reason)


def _cpu_seconds() -> float:
    """Of this process and of those it started that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _about(run: ab.Run) -> dict[str, Any]:
    known = run.manifest
    document = {
        "settings": known.settings,
        "model": known.model,
        "data": known.data,
        "versions": known.versions,
        "inputs": known.inputs,
    }
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain
