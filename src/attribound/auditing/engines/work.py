"""What an engine is given, and how often it tries."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from attribound.auditing.at_work import Listener, nobody
from attribound.auditing.store import Tables
from attribound.basics.errors import InputError

Measure = Callable[[Any], Tables]
#: Numbers of batches with what was measured; closing it ends all workers.
Results = Generator[tuple[int, Tables], None, None]
#: After this many tries a batch that kills its workers is recorded as failed.
TRIES = 3


@dataclass(frozen=True)
class Work:
    """How batches are read, measured, and recorded when they cannot be measured.

    Attributes:
        measure: measures a batch in this process.
        prepare: gives ``measure`` in a worker; called once there, and pickled on the way.
        batch: reads batch ``number``; called here, so that workers need no data.
        failed: the rows of a batch whose workers died, with the reason.
        told: hears in this process what a batch is at, as far as the engine knows.
    """

    measure: Measure
    prepare: Callable[[], Measure]
    batch: Callable[[int], Any]
    failed: Callable[[int, str], Tables]
    told: Listener = nobody


class Engine(Protocol):
    """Measures batches in any order; each comes out exactly once."""

    def run(self, work: Work, numbers: Iterable[int]) -> Results:
        """Batch numbers with what was measured, as they are finished.

        Closing the iterator ends all workers.
        """
        ...


class Queue:
    """The batches that wait, and those whose workers died before."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._waiting = deque(numbers)
        self._deaths: Counter[int] = Counter()
        self._unborn = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next(self) -> int | None:
        """The next batch to compute, if any waits."""
        return self._waiting.popleft() if self._waiting else None

    def died(self, number: int) -> bool:
        """Note that the worker of batch ``number`` died; whether to give the batch up."""
        self._deaths[number] += 1
        if self._deaths[number] >= TRIES:
            return True
        self._waiting.append(number)
        return False

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


def given_up(how: str) -> str:
    """The error recorded for a batch that was tried as often as allowed."""
    return f"the process that computed this batch died {TRIES} times, at last {how}"
