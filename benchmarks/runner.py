"""``make bench``: what a run costs over measuring directly, and what a second worker brings.

Goals: at most 5 % on 256 samples; 2 workers at least 1.6 times as fast as one on two cores,
one thread each. All three are timed in every round, one after the other, and ratios are
taken within a round: the machine is not equally fast for a quarter of an hour.
``--samples 32 --rounds 1`` for a quick look.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch

import attribound as ab
from attribound.auditing import Engine
from attribound.auditing.engines import Work
from attribound.auditing.engines.work import Results
from attribound.auditing.given import samples_of, settings_of
from attribound.auditing.measure import measure
from attribound.auditing.rows import KEY, untimed
from attribound.auditing.subject import Subject
from attribound.basics.tables import render

MODEL, DATA = 'fashion:network?{"name": "at"}', "fashion-mnist"
SETTINGS: dict[str, Any] = {"attributions": ab.Saliency(), "protocol": "quick", "batch": 16}


def directly(samples: int) -> pa.Table:
    """Load, measure batch after batch, keep the rows in memory: no run, no engine."""
    settings = settings_of(MODEL, DATA, {**SETTINGS, "limit": samples})
    chosen, subject = samples_of(DATA, settings), Subject.load(settings)
    numbers = range(-(-len(chosen) // settings.batch))
    return pa.concat_tables([measure(subject, chosen.batch(n)).rows for n in numbers])


@dataclass
class Inside:
    """An engine that counts the seconds that one worker spends measuring."""

    seconds: float = 0.0

    def run(self, work: Work, numbers: Iterable[int]) -> Results:
        def measured(batch: Any) -> Any:
            start = time.process_time()
            found = work.measure(batch)
            self.seconds += time.process_time() - start
            return found

        return ab.LocalEngine(threads=1).run(replace(work, measure=measured), numbers)


def as_a_run(samples: int, engine: Engine) -> pa.Table:
    """The same as an audit with its run on disk."""
    with TemporaryDirectory() as folder:
        out = f"{folder}/run"
        return ab.audit(MODEL, DATA, out=out, engine=engine, limit=samples, **SETTINGS).rows()


def timed(compute: Callable[[], pa.Table]) -> tuple[float, float, pa.Table]:
    """Seconds on the wall, seconds of this process, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    table = compute()
    return time.perf_counter() - wall, time.process_time() - cpu, table


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables agree in everything but timings."""
    return bool(_sorted(one).equals(_sorted(other)))


def _sorted(rows: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in KEY]
    return untimed(rows.take(pc.sort_indices(rows.select(list(KEY)), sort_keys=order)))


@dataclass(frozen=True)
class Round:
    """Seconds of all three, one after the other: on the wall, and of this process."""

    direct: float
    direct_cpu: float
    run: float
    run_cpu: float
    inside_cpu: float
    two: float
    same_rows: bool

    @classmethod
    def time(cls, samples: int) -> Round:
        """Measure directly, as a run, and as a run with two workers; compare the rows."""
        inside = Inside()
        direct, direct_cpu, rows = timed(lambda: directly(samples))
        run, run_cpu, run_rows = timed(lambda: as_a_run(samples, inside))
        two, _, two_rows = timed(lambda: as_a_run(samples, ab.LocalEngine(2, threads=1)))
        agree = same(rows, run_rows) and same(rows, two_rows)
        return cls(direct, direct_cpu, run, run_cpu, inside.seconds, two, agree)


def spread(values: Iterable[float]) -> str:
    """The median of a ratio, and all its values."""
    values = list(values)
    return f"{median(values):.3f} ({', '.join(f'{value:.3f}' for value in values)})"


def main() -> None:
    """Time all rounds, print the ratios, check that the rows are the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    directly(16)  # what is done only once in a process
    rounds = []
    for number in range(options.rounds):
        rounds.append(Round.time(options.samples))
        print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
    cells = ("direct", "direct_cpu", "run", "run_cpu", "two")
    table = [
        (str(number), *(f"{getattr(each, cell):.1f}" for cell in cells))
        for number, each in enumerate(rounds, 1)
    ]
    title = f"{options.samples} samples, saliency, protocol quick, one thread a worker: seconds"
    heads = ("round", "directly", "CPU", "one worker", "CPU", "two workers")
    print(render(title, heads, table))
    print("Medians of the rounds (all of them):")
    print(f"run / direct, wall: {spread(r.run / r.direct for r in rounds)} (goal: 1.05)")
    print(f"run / direct, CPU: {spread(r.run_cpu / r.direct_cpu for r in rounds)}")
    # The same process at the same time, so that a busy machine matters less.
    outside = spread(r.run_cpu / r.inside_cpu for r in rounds)
    print(f"CPU of a run / CPU of its measuring, loading included: {outside}")
    print(f"one worker / two, wall: {spread(r.run / r.two for r in rounds)} (goal: 1.6)")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    print(f"same rows: {all(r.same_rows for r in rounds)}")


if __name__ == "__main__":
    main()
