"""Batches in this process, or in several of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from attribound.auditing.at_work import AtWork, heard_by
from attribound.auditing.engines.work import Queue, Results, Work, given_up
from attribound.auditing.engines.worker import serve
from attribound.auditing.store import Tables
from attribound.basics.errors import InputError

#: "forkserver": torch is loaded once, by a process without threads that all others copy.
_CONTEXT = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
#: Read by OpenMP, MKL and OpenBLAS when they are loaded, so before a worker starts; torch's
#: own threads are set inside.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SECONDS_TO_DIE = 5.0


@dataclass(frozen=True)
class LocalEngine:
    """``workers`` processes with ``threads`` threads each.

    One worker is this process itself, by default with the threads torch has. Several are
    new processes (never forked: a script that starts them needs ``if __name__ == "__main__"``),
    by default with one thread each, which is fastest for many small problems and never
    takes more than the machine has. One that dies (killed, out of memory) is replaced and
    its batch tried again, three times in all; then the batch is recorded as failed.

    Rows do not depend on the number of workers. They may depend on ``threads`` in the last
    digits, because torch adds up in another order.
    """

    workers: int = 1
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None and value < 1:
                raise InputError(name, expected="at least 1", got=str(value), remedy="give more")

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
        queue = Queue(numbers)
        crew: dict[Connection[Any, Any], _Worker] = {}
        if sys.platform != "win32":
            _CONTEXT.set_forkserver_preload([serve.__module__, "attribound.auditing.measure"])
        try:
            while len(queue) or any(worker.number is not None for worker in crew.values()):
                busy = sum(worker.number is not None for worker in crew.values())
                for _ in range(min(self.workers, busy + len(queue)) - len(crew)):
                    worker = _Worker(recipe, threads)
                    crew[worker.link] = worker
                for link in wait(list(crew)):
                    assert isinstance(link, Connection)
                    answer = _listen(crew, crew[link], queue, work)
                    for worker in crew.values():  # they work while the answer is stored
                        worker.take(queue, work)
                    if answer is not None:
                        yield answer
        finally:
            for worker in crew.values():
                worker.stop()


class _Worker:
    """A process, the link to it, and the batch it has."""

    def __init__(self, recipe: bytes, threads: int) -> None:
        self.link, theirs = _CONTEXT.Pipe()
        self.process: BaseProcess = _CONTEXT.Process(  # type: ignore[attr-defined]
            target=serve, args=(theirs, recipe, threads), daemon=True
        )
        with _environment(dict.fromkeys(_THREADS, "1")):
            self.process.start()
        theirs.close()  # so that the link ends with the process
        self.ready = False
        self.number: int | None = None

    def take(self, queue: Queue, work: Work) -> None:
        """Begin with the next batch, if there is one and nothing else to do."""
        if self.ready and self.number is None and (number := queue.next()) is not None:
            self.number = number
            with suppress(ConnectionError):  # it just died: seen when it is listened to
                self.link.send((number, work.batch(number)))

    def stop(self, patience: float = 0) -> str:
        """End the process, whatever it does, if it does not end by itself; how it ended."""
        self.link.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        return _ending(self.process.exitcode)


def _listen(
    crew: dict[Connection[Any, Any], _Worker], worker: _Worker, queue: Queue, work: Work
) -> tuple[int, Tables] | None:
    """What a worker has to say: a batch, if it is done with one or has to be given up."""
    try:
        answer = worker.link.recv()
    except (EOFError, ConnectionError):
        how = worker.stop(_SECONDS_TO_DIE)
        del crew[worker.link]
        if not worker.ready:
            queue.unborn(how)
        if worker.number is not None and queue.died(worker.number):
            return worker.number, work.failed(worker.number, given_up(how))
        return None
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, AtWork):
        work.told(answer)
        return None
    worker.ready, worker.number = True, None
    queue.born()
    number_and_tables: tuple[int, Tables] | None = answer
    return number_and_tables


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
