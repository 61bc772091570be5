"""``make bench``: what a run costs over measuring directly, and what a second worker brings.

Goals: at most 5 % on 256 samples; 2 workers at least 1.6 times as fast as one on two cores,
one thread each. ``--samples 32`` for a quick look.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import torch

from attribound.evaluation.audit import audit
from attribound.evaluation.audited import samples_of, settings_of
from attribound.evaluation.engines import Engine, LocalEngine, Work
from attribound.evaluation.engines.work import Results
from attribound.evaluation.measure import Subject, measure
from attribound.evaluation.rows import timings_in
from attribound.tables import render

MODEL, DATA = 'fashion:network?{"name": "at"}', "fashion-mnist"
SETTINGS: dict[str, Any] = {"attributions": "saliency", "protocol": "quick", "batch": 16}


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

        return LocalEngine(threads=1).run(replace(work, measure=measured), numbers)


def as_a_run(samples: int, engine: Engine) -> pa.Table:
    """The same as an audit with its run on disk."""
    with TemporaryDirectory() as folder:
        out = f"{folder}/run"
        return audit(MODEL, DATA, out=out, engine=engine, limit=samples, **SETTINGS).table()


def timed(compute: Callable[[], pa.Table]) -> tuple[float, float, pa.Table]:
    """Seconds on the wall, seconds of this process, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    table = compute()
    return time.perf_counter() - wall, time.process_time() - cpu, table


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables agree in everything but timings."""
    order = [(name, "ascending") for name in ("sample", "attribution", "norm", "epsilon")]
    without = timings_in(one.column_names)
    return bool(
        one.sort_by(order).drop_columns(without).equals(other.sort_by(order).drop_columns(without))
    )


def main() -> None:
    """Time all three, print the ratios, check that the rows are the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=256)
    samples = parser.parse_args().samples
    torch.set_num_threads(1)
    directly(16)  # what is done only once in a process
    inside = Inside()
    wall, cpu, rows = timed(lambda: directly(samples))
    run_wall, run_cpu, run_rows = timed(lambda: as_a_run(samples, inside))
    two_wall, _, two_rows = timed(lambda: as_a_run(samples, LocalEngine(2, threads=1)))
    table = [
        ("measured directly", f"{wall:.1f}", f"{cpu:.1f}"),
        ("as a run, one worker", f"{run_wall:.1f}", f"{run_cpu:.1f}"),
        ("as a run, two workers", f"{two_wall:.1f}", ""),
    ]
    title = f"{samples} samples, saliency, protocol quick, one thread a worker"
    print(render(title, ("", "seconds", "CPU seconds here"), table))
    print(f"run / direct: {run_wall / wall:.3f} wall, {run_cpu / cpu:.3f} CPU (goal: 1.05)")
    # The same process at the same time, so that a busy machine matters less.
    outside = run_cpu / inside.seconds - 1
    print(f"CPU of a run outside of measuring, loading included: {100 * outside:.1f} % more")
    print(f"two workers: {run_wall / two_wall:.2f} times one (goal: 1.6, on two free cores)")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    print(f"same rows: {same(rows, run_rows) and same(rows, two_rows)}")


if __name__ == "__main__":
    main()
