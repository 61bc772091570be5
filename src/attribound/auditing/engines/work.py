"""What an engine is given, and how often it tries."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Protocol

import pyarrow as pa

from attribound.auditing.at_work import Listener, nobody
from attribound.auditing.store import Tables
from attribound.basics.errors import InputError

Measure = Callable[[Any], Tables]
#: Numbers of batches with what was measured; closing it ends all workers.
Results = Generator[tuple[int, Tables], None, None]
#: After this many tries a batch that kills its workers is halved, a sample recorded as failed.
TRIES = 3
#: Seconds that a worker may say nothing, by default.
PATIENCE = 3600.0
_TIMES = 10


@dataclass(frozen=True)
class Work:
    """How batches are read, measured, and recorded when they cannot be measured.

    Attributes:
        measure: measures a batch in this process.
        prepare: gives ``measure`` in a worker; called once there, and pickled on the way.
        batch: reads batch ``number``; called here, so that workers need no data.
        failed: the rows of a batch (as read) whose workers died, with the reason.
        halves: the first and the second half of a batch of several samples.
        told: hears in this process what a batch is at, as far as the engine knows.
    """

    measure: Measure
    prepare: Callable[[], Measure]
    batch: Callable[[int], Any]
    failed: Callable[[Any, str], Tables]
    told: Listener = nobody
    halves: Callable[[Any], Iterable[Any]] = methodcaller("halves")


class Engine(Protocol):
    """Measures batches in any order; each comes out exactly once."""

    def run(self, work: Work, numbers: Iterable[int]) -> Results:
        """Batch numbers with what was measured, as they are finished.

        Closing the iterator ends all workers.
        """
        ...


@dataclass(frozen=True)
class Piece:
    """A batch, or a part of one that killed its workers: the half of the half ... of it."""

    number: int
    halves: tuple[int, ...] = ()


@dataclass(frozen=True)
class Joined:
    """What was measured on the pieces of a batch, together."""

    rows: pa.Table
    maps: pa.Table


class Queue:
    """The batches that wait, and those whose workers died before.

    A batch is tried :data:`TRIES` times as a whole, since whoever was killed by chance must get
    the same rows. Then it is halved until the sample that kills its workers is alone; that one
    is recorded as failed, the others are measured.
    """

    def __init__(self, work: Work, numbers: Iterable[int]) -> None:
        self._work = work
        self._waiting = deque(Piece(number) for number in numbers)
        self._deaths: Counter[Piece] = Counter()
        self._open: Counter[int] = Counter(piece.number for piece in self._waiting)
        self._found: dict[int, dict[tuple[int, ...], Tables]] = {}
        self._unborn = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next(self) -> Piece | None:
        """The next piece to compute, if any waits."""
        return self._waiting.popleft() if self._waiting else None

    def read(self, piece: Piece) -> Any:
        """The samples of a piece."""
        batch = self._work.batch(piece.number)
        for half in piece.halves:
            batch = [*self._work.halves(batch)][half]
        return batch

    def done(self, piece: Piece, tables: Tables) -> tuple[int, Tables] | None:
        """The batch of this piece, if nothing of it is missing any more."""
        number = piece.number
        self._open[number] -= 1
        pieces = self._found.setdefault(number, {})
        pieces[piece.halves] = tables
        if self._open[number]:
            return None
        every = [pieces[halves] for halves in sorted(self._found.pop(number))]
        if len(every) == 1:
            return number, every[0]
        rows = pa.concat_tables([each.rows for each in every])
        return number, Joined(rows, pa.concat_tables([each.maps for each in every]))

    def died(self, piece: Piece, how: str) -> tuple[int, Tables] | None:
        """Note that the worker of a piece died; the batch, if that was all there is to try."""
        self._deaths[piece] += 1
        batch = self.read(piece)
        whole_or_alone = not piece.halves or len(batch) == 1
        if self._deaths[piece] < (TRIES if whole_or_alone else 1):
            self._waiting.append(piece)
            return None
        if len(batch) > 1:
            self._waiting.extend(Piece(piece.number, (*piece.halves, half)) for half in (0, 1))
            self._open[piece.number] += 1
            return None
        return self.done(piece, self._work.failed(batch, given_up(how)))

    def unborn(self, how: str) -> None:
        """Note that a worker died before its first batch.

        Raises:
            InputError: several in a row did.
        """
        self._unborn += 1
        if self._unborn >= TRIES:
            raise InputError(
                "workers",
                expected="processes that can load the model",
                got=f"{TRIES} that died while loading it ({how})",
                remedy="use fewer workers if memory is short, or one to see what happens",
            )

    def born(self) -> None:
        """Note that a worker is ready."""
        self._unborn = 0


class Patience:
    """How long a worker may say nothing: ``seconds``, or ten times the longest that one did."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._longest = seconds, 0.0

    def heard(self, after: float) -> None:
        """A worker said something after so many seconds."""
        self._longest = max(self._longest, after)

    @property
    def left(self) -> float:
        """Seconds until a worker that says nothing is given up."""
        return max(self._seconds, _TIMES * self._longest)


def check_patience(seconds: float) -> None:
    """Refuse what is no time."""
    if not seconds > 0:
        raise InputError(
            "patience",
            expected="seconds above 0",
            got=str(seconds),
            remedy="use more than the longest step of a batch takes, or float('inf')",
        )


def given_up(how: str) -> str:
    """The error recorded for a sample that was tried as often as allowed."""
    return f"the process that computed this sample alone died {TRIES} times, at last {how}"
