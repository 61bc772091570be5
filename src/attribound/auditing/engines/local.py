"""Batches in this process, or in several of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from attribound.auditing.at_work import AtWork, heard_by
from attribound.auditing.engines.work import (
    PATIENCE,
    Patience,
    Piece,
    Queue,
    Results,
    Work,
    check_patience,
)
from attribound.auditing.engines.worker import serve
from attribound.auditing.store import Tables
from attribound.basics.errors import InputError
from attribound.basics.numbers import check_count

if sys.platform == "win32":
    _CONTEXT = multiprocessing.get_context("spawn")
else:  # torch is loaded once, by a process without threads that all others copy
    _CONTEXT = multiprocessing.get_context("forkserver")
#: Read by OpenMP, MKL and OpenBLAS when they are loaded, so before a worker starts; torch's
#: own threads are set inside.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SECONDS_TO_DIE = 5.0
_LONGEST_WAIT = 2.0**20  # seconds: what systems take as a timeout


@dataclass(frozen=True)
class LocalEngine:
    """``workers`` processes with ``threads`` threads each.

    One worker is this process itself, by default with the threads torch has. Several are
    new processes (never forked: a script that starts them needs ``if __name__ == "__main__"``),
    by default with one thread each, which is fastest for many small problems and never
    takes more than the machine has. One that dies (killed, out of memory) is replaced and
    its batch tried again, three times in all; then the batch is halved until the sample that
    kills its workers is alone and recorded as failed. One that says nothing for ``patience``
    seconds, or for ten times the longest that any did, is killed as if it had died. (A worker
    says something at each step of a batch. This process itself cannot be stopped so.)

    Rows do not depend on the number of workers. They may depend on ``threads`` in the last
    digits, because torch adds up in another order.
    """

    workers: int = 1
    threads: int | None = None
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None:
                check_count(name, value, "give more")
        check_patience(self.patience)

    def run(self, work: Work, numbers: Iterable[int]) -> Results:
        numbers = list(numbers)
        if self.workers == 1:
            return self._here(work, numbers)
        return self._elsewhere(work, numbers)

    def _here(self, work: Work, numbers: list[int]) -> Results:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        try:
            for number in numbers:
                with heard_by(work.told):
                    found = work.measure(work.batch(number))
                yield number, found
        finally:
            torch.set_num_threads(before)

    def _elsewhere(self, work: Work, numbers: list[int]) -> Results:
        recipe, threads = _pickled(work), self.threads or 1
        queue, patience = Queue(work, numbers), Patience(self.patience)
        crew: dict[Connection[Any, Any], _Worker] = {}
        if sys.platform != "win32":
            _CONTEXT.set_forkserver_preload([serve.__module__, "attribound.auditing.measure"])
        try:
            while len(queue) or any(worker.piece is not None for worker in crew.values()):
                busy = sum(worker.piece is not None for worker in crew.values())
                for _ in range(min(self.workers, busy + len(queue)) - len(crew)):
                    try:
                        worker = _Worker(recipe, threads)
                    except (OSError, EOFError) as error:  # the server of new processes is gone
                        queue.unborn(f"{type(error).__name__}: {error}")
                        continue
                    crew[worker.link] = worker
                for worker in _heard(crew, patience):
                    answer = _listen(crew, worker, queue, work, patience)
                    for other in crew.values():  # they work while the answer is stored
                        other.take(queue)
                    if answer is not None:
                        yield answer
        finally:
            for worker in crew.values():
                worker.stop()


class _Worker:
    """A process, the link to it, and the batch it has."""

    def __init__(self, recipe: bytes, threads: int) -> None:
        self.link, theirs = _CONTEXT.Pipe()
        self.process: BaseProcess = _CONTEXT.Process(
            target=serve, args=(theirs, recipe, threads), daemon=True
        )
        with _environment(dict.fromkeys(_THREADS, "1")):
            self.process.start()
        theirs.close()  # so that the link ends with the process
        self.ready = False
        self.piece: Piece | None = None
        self.heard = time.monotonic()

    @property
    def silent(self) -> float:
        """Seconds for which it has worked without a word; none if it has nothing to do."""
        idle = self.ready and self.piece is None
        return 0.0 if idle else time.monotonic() - self.heard

    def take(self, queue: Queue) -> None:
        """Begin with the next piece, if there is one and nothing else to do."""
        if self.ready and self.piece is None and (piece := queue.next()) is not None:
            self.piece, self.heard = piece, time.monotonic()
            with suppress(ConnectionError):  # it just died: seen when it is listened to
                # As bytes: torch's way of sending tensors would need room in /dev/shm.
                self.link.send_bytes(pickle.dumps((piece.number, queue.read(piece))))

    def stop(self, patience: float = 0) -> str:
        """End the process, whatever it does, if it does not end by itself; how it ended."""
        self.link.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        return _ending(self.process.exitcode)


def _heard(crew: dict[Connection[Any, Any], _Worker], patience: Patience) -> list[_Worker]:
    """The workers that have something to say, or have said nothing for too long."""
    longest = max((worker.silent for worker in crew.values()), default=0.0)
    wait(list(crew), min(max(0.0, patience.left - longest), _LONGEST_WAIT))
    return [
        worker for worker in crew.values() if worker.link.poll() or worker.silent > patience.left
    ]


def _listen(
    crew: dict[Connection[Any, Any], _Worker],
    worker: _Worker,
    queue: Queue,
    work: Work,
    patience: Patience,
) -> tuple[int, Tables] | None:
    """What a worker has to say: a batch, if it is done with one or has to be given up."""
    silent = worker.silent
    try:
        if silent > patience.left and not worker.link.poll():
            worker.process.kill()
        answer = worker.link.recv()
    except (EOFError, ConnectionError):
        how = worker.stop(_SECONDS_TO_DIE)
        if silent > patience.left:
            how = f"killed after {silent:.0f} s without a word"
        del crew[worker.link]
        if not worker.ready:
            queue.unborn(how)
        return None if worker.piece is None else queue.died(worker.piece, how)
    if isinstance(answer, Exception):
        raise answer
    patience.heard(silent)
    worker.heard = time.monotonic()
    if isinstance(answer, AtWork):
        work.told(answer)
        return None
    piece, worker.ready, worker.piece = worker.piece, True, None
    queue.born()
    return None if answer is None or piece is None else queue.done(piece, answer[1])


def _pickled(work: Work) -> bytes:
    """The recipe as bytes: torch's way of sharing tensors would need room in /dev/shm."""
    try:
        return pickle.dumps(work.prepare)
    except Exception as error:
        raise InputError(
            "model",
            expected="one that can be sent to other processes",
            got=f"{type(error).__name__}: {error}",
            remedy="use one worker, or give the model as 'module:factory' or as a file",
        ) from error


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"
