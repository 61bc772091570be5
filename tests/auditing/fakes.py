"""Runs without networks: batches whose rows are a function of their number."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from attribound.auditing.at_work import Steps
from attribound.auditing.engines.work import Work
from attribound.auditing.manifest import Manifest
from attribound.auditing.rows import MAPS_SCHEMA, SCHEMA, table

EPSILONS = (0.1, 0.05)


@dataclass(frozen=True)
class Fake:
    rows: pa.Table
    maps: pa.Table


def manifest(samples: int = 10, batch: int = 4, **changes: Any) -> Manifest:
    made = Manifest(
        settings={"seed": 0, "balls": [{"kind": "l2", "epsilon": each} for each in EPSILONS]},
        model={"name": "a model", "fingerprint": "sha256:1"},
        data={"name": "some data", "fingerprint": "sha256:2", "classes": ["a", "b"]},
        versions={"attribound": "1", "torch": "2", "python": "3"},
        samples=samples,
        batch=batch,
        rows_per_sample=len(EPSILONS),
        created="2026-01-01T00:00:00+00:00",
    )
    return replace(made, **changes)


def measured(samples: range, error: str | None = None) -> Fake:
    keys: list[dict[str, Any]] = [
        {"sample": sample, "attribution": "ig", "ball": "l2", "epsilon": epsilon}
        for sample in samples
        for epsilon in EPSILONS
    ]
    rows = [{**key, **(_failed(error) if error else _fine(key))} for key in keys]
    maps = [
        {
            **key,
            "shape": [2],
            "map_shape": [1],
            "input": [0.5, key["sample"]],
            "clean_map": [1.0],
            "delta": [0.0, 0.1],
            "attacked_map": [2.0],
        }
        for key in keys[:1]
    ]
    return Fake(table(rows, SCHEMA), table(maps, MAPS_SCHEMA))


_KNOWN = {"batch": 0, "label": 1, "features": 2}


def _failed(error: str) -> dict[str, Any]:
    return {**_KNOWN, "error": error, "bounds": [], "attacks": []}


def _fine(key: dict[str, Any]) -> dict[str, Any]:
    deviation = key["sample"] * key["epsilon"]
    record = {"deviation": deviation, "degrees": 1.0, "label_kept": True}
    bounds = [
        {"claim": claim, "euclidean": factor * deviation, "exceeded": factor < 1}
        for claim, factor in (("first_order", 0.5), ("mean_value", 2.0))
    ]
    attack = {"attack": "pgd", **record, "repeats": [{"deviation": deviation / 2}, record]}
    return {
        **_KNOWN,
        "scores": 1,
        "strongest": {"by": "pgd", **record},
        "bounds": bounds,
        "attacks": [attack],
    }


def samples_of(number: int, samples: int = 10, batch: int = 4) -> range:
    return range(number * batch, min(samples, (number + 1) * batch))


def measure(batch: range) -> Fake:
    return measured(batch)


def failed(batch: range, reason: str) -> Fake:
    return measured(batch, reason)


def halves(batch: range) -> tuple[range, range]:
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]


def work(prepare: Callable[[], Callable[[Any], Fake]]) -> Work:
    return Work(measure=measure, prepare=prepare, batch=samples_of, failed=failed, halves=halves)


@dataclass(frozen=True)
class Sound:
    """A recipe whose workers do what they should."""

    def __call__(self) -> Callable[[range], Fake]:
        return measure


@dataclass(frozen=True)
class Telling:
    """A recipe whose workers tell of two steps before they do what ``inner``'s do."""

    inner: Callable[[], Callable[[range], Fake]]

    def __call__(self) -> Callable[[range], Fake]:
        measure = self.inner()

        def told(batch: range) -> Fake:
            steps = Steps(batch.start // 4, 2)
            steps.next("one")
            steps.next("other")
            return measure(batch)

        return told


@dataclass(frozen=True)
class Deadly:
    """A recipe whose workers are killed by the batch that starts at ``sample``, some times."""

    folder: Path
    sample: int
    deaths: int
    delay: float = 0

    def __call__(self) -> Callable[[range], Fake]:
        return self.measure

    def measure(self, batch: range) -> Fake:
        if batch.start == self.sample and len(self.dead()) < self.deaths:
            time.sleep(self.delay)
            (self.folder / f"dead-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return measured(batch)

    def dead(self) -> list[Path]:
        return sorted(self.folder.glob("dead-*"))


@dataclass(frozen=True)
class Hanging:
    """A recipe whose workers never come back from a batch with ``sample`` in it."""

    inner: Callable[[], Callable[[range], Fake]]
    sample: int

    def __call__(self) -> Callable[[range], Fake]:
        inner = self.inner()
        return lambda batch: time.sleep(600) if self.sample in batch else inner(batch)  # type: ignore[return-value,func-returns-value]


@dataclass(frozen=True)
class OfTensors:
    """A recipe whose batches come with a tensor."""

    def __call__(self) -> Callable[[tuple[torch.Tensor, range]], Fake]:
        return lambda batch: measured(batch[1])


@dataclass(frozen=True)
class Stillborn:
    """A recipe whose workers die while they load."""

    def __call__(self) -> Callable[[range], Fake]:
        os._exit(7)


@dataclass(frozen=True)
class Broken:
    """A recipe that cannot load its model."""

    def __call__(self) -> Callable[[range], Fake]:
        raise FileNotFoundError("no such weights")


class Unpicklable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


@dataclass(frozen=True)
class Faulty:
    """A recipe whose measurement raises what cannot be pickled."""

    def __call__(self) -> Callable[[range], Fake]:
        return self.measure

    def measure(self, batch: range) -> Fake:
        raise Unpicklable("a mistake of ours", "two")


@dataclass(frozen=True)
class Endless:
    """A recipe whose workers say who they are and never finish."""

    folder: Path

    def __call__(self) -> Callable[[range], Fake]:
        return self.measure

    def measure(self, batch: range) -> Fake:
        (self.folder / f"at-{os.getpid()}").touch()
        time.sleep(600)
        return measured(batch)


@dataclass(frozen=True)
class EndlessAfter(Endless):
    """The same, but the first batch is measured."""

    def measure(self, batch: range) -> Fake:
        return measured(batch) if batch.start == 0 else super().measure(batch)


@dataclass(frozen=True)
class Threads:
    """A recipe whose workers say how many threads they have, as the error of their rows."""

    def __call__(self) -> Callable[[range], Fake]:
        return self.measure

    def measure(self, batch: range) -> Fake:
        told = f"torch {torch.get_num_threads()}, OMP {os.environ['OMP_NUM_THREADS']}"
        return measured(batch, told)
