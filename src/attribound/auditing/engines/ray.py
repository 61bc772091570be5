"""Batches on a Ray cluster, or on this machine through Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from attribound.auditing.at_work import AtWork
from attribound.auditing.engines.work import (
    PATIENCE,
    Measure,
    Patience,
    Piece,
    Queue,
    Results,
    Work,
    check_patience,
)
from attribound.auditing.store import Tables
from attribound.basics.errors import InputError
from attribound.basics.packages import package

_LONGEST_WAIT = 2.0**20  # seconds: what systems take as a timeout


@dataclass(frozen=True)
class RayEngine:
    """``workers`` Ray actors with ``cpus`` and ``gpus`` each.

    Without ``address`` Ray is started on this machine and stopped at the end; with one
    (``"auto"``, or ``"ray://host:10001"``) the cluster is used and left as it was. A Ray
    that the program itself started is used in any case. Without ``workers`` there are as
    many as the resources allow. An actor that dies, or whose node does, is replaced and
    its batch tried again, three times in all; then the batch is halved until the sample that
    kills its workers is alone and recorded as failed. A batch that takes longer than ``patience``
    seconds, and than ten times the longest so far, counts as one whose actor died.

    The rows are those of the local engine with as many threads as ``cpus``. attribound
    must be installed on every node, and files named in the settings must be visible there;
    data need not, because batches are sent. Only this process writes the run.
    """

    address: str | None = None
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0
    temporary: str | None = None
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(
                "workers", expected="at least 1", got=str(self.workers), remedy="give more"
            )
        check_patience(self.patience)
        if not self.cpus > 0 or not self.gpus >= 0:
            raise InputError(
                "resources of a worker",
                expected="cpus > 0 and gpus >= 0",
                got=f"cpus={self.cpus}, gpus={self.gpus}",
                remedy="fractions share a device, whole numbers reserve it",
            )

    def run(self, work: Work, numbers: Iterable[int]) -> Results:
        # Not asked for, not sent: Ray otherwise reports its use to its makers.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = package("ray", extra="ray", purpose="the Ray engine")
        numbers, ours = list(numbers), not ray.is_initialized()
        if ours:
            self._start(ray)
        crew = _Crew(ray, self, work.prepare)
        try:
            queue, patience = Queue(work, numbers), Patience(self.patience)
            yield from _conduct(crew, queue, work, self._size(ray, len(numbers)), patience)
        finally:
            crew.stop()
            if ours:
                ray.shutdown()

    def _start(self, ray: Any) -> None:
        here: dict[str, Any] = {"include_dashboard": False}
        if self.address is None and self.workers is not None:
            # Ray counts the cores; who asks for more workers than that gets them.
            here["num_cpus"] = max(os.cpu_count() or 1, int(self.workers * self.cpus + 0.999))
        if self.temporary is not None:
            here["_temp_dir"] = self.temporary
        try:
            ray.init(
                address="local" if self.address is None else self.address,
                logging_level="ERROR",
                log_to_driver=False,
                **(here if self.address is None else {}),
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                f"Ray at {self.address or 'this machine'}",
                expected="a cluster that answers",
                got=f"{type(error).__name__}: {error}",
                remedy="check the address and that 'ray status' works, or leave the address out",
            ) from error

    def _size(self, ray: Any, batches: int) -> int:
        """How many actors; more than fit would wait for resources forever."""
        total = ray.cluster_resources()
        fits = int(total.get("CPU", 0) / self.cpus)
        if self.gpus:
            fits = min(fits, int(total.get("GPU", 0) / self.gpus))
        if fits < 1:
            raise InputError(
                "resources of a worker",
                expected=f"at most what the cluster has: CPU {total.get('CPU', 0):g}, "
                f"GPU {total.get('GPU', 0):g}",
                got=f"cpus={self.cpus}, gpus={self.gpus}",
                remedy="ask for less, or add nodes",
            )
        return min(self.workers or fits, fits, batches)


class RayWorker:
    """What runs inside an actor: load once, then measure batch after batch."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._measure: Measure | None = None

    def prepare(self, recipe: Callable[[], Measure]) -> None:
        """Load the model; apart from ``__init__`` so that its error comes back as it is."""
        self._measure = recipe()

    def measure(self, batch: Any) -> Tables:
        assert self._measure is not None
        return self._measure(batch)

    def process(self) -> int:
        """The process of this actor on its node."""
        return os.getpid()


class _Crew:
    """Makes actors and ends them."""

    def __init__(self, ray: Any, engine: RayEngine, recipe: Callable[[], Measure]) -> None:
        self.ray, self._actors = ray, set[Any]()
        self._recipe = ray.put(recipe)
        self._threads = max(1, int(engine.cpus))
        self._kind = ray.remote(RayWorker).options(
            num_cpus=engine.cpus, num_gpus=engine.gpus, max_restarts=0, max_task_retries=0
        )

    def __len__(self) -> int:
        return len(self._actors)

    def hire(self) -> tuple[Any, Any]:
        """A new actor and the promise that it is ready."""
        actor = self._kind.remote(self._threads)
        self._actors.add(actor)
        return actor, actor.prepare.remote(self._recipe)

    def dismiss(self, actor: Any) -> None:
        self._actors.discard(actor)
        self.ray.kill(actor)

    def stop(self) -> None:
        for actor in list(self._actors):
            self.dismiss(actor)


def _conduct(crew: _Crew, queue: Queue, work: Work, size: int, patience: Patience) -> Results:
    """Keep ``size`` actors busy until every batch came out."""
    ray = crew.ray
    promises: dict[Any, tuple[Any, Piece | None, float]] = {}
    while len(queue) or promises:
        for _ in range(min(size - len(crew), len(queue))):
            actor, ready = crew.hire()
            promises[ready] = actor, None, time.monotonic()
        oldest = min(since for _, _, since in promises.values())
        left = max(0.0, patience.left - (time.monotonic() - oldest))
        found, _ = ray.wait(list(promises), num_returns=1, timeout=min(left, _LONGEST_WAIT))
        late = [each for each in promises if promises[each][2] == oldest]
        kept = (found or late)[0]
        actor, piece, since = promises.pop(kept)
        try:
            answer = ray.get(kept, timeout=None if found else 0)
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error
        except ray.exceptions.RayError as error:
            if not found and time.monotonic() - since < patience.left:
                promises[kept] = actor, piece, since  # it waited as long as it can at once
                continue
            crew.dismiss(actor)
            how = f"in Ray: {type(error).__name__}"
            if piece is None:
                queue.unborn(how)
            elif (given_up := queue.died(piece, how)) is not None:
                yield given_up
            continue
        queue.born()
        patience.heard(time.monotonic() - since)
        following = queue.next()
        if following is not None:  # before the yield: the actor works while we store
            promise = actor.measure.remote(queue.read(following))
            promises[promise] = actor, following, time.monotonic()
            work.told(AtWork(following.number))  # an actor tells nothing before it is done
        if piece is not None and (whole := queue.done(piece, answer)) is not None:
            yield whole
