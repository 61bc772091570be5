"""``make bench``: what a run costs over measuring directly, and what a second worker brings.

Goals: at most 5 % on 256 samples; 2 workers at least 1.6 times as fast as one on two cores,
one thread each. All three are timed in every round, one after the other, and ratios are
taken within a round: the machine is not equally fast for a quarter of an hour.
``--samples 32 --rounds 1`` for a quick look. ``--long 20000``: one long audit of a tiny network,
killed at half and resumed (``make bench-long``).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
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
from faulty import alive, whose

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


@dataclass
class Long:
    """One audit of many samples by the command line, watched from outside.

    Attributes:
        folder: of everything.
        samples: how many.
        seen: share of the parts that were there, megabytes of the parent, of the largest worker.
        spent: CPU-seconds of parents and workers, by process, when last seen.
    """

    folder: Path
    samples: int
    seen: list[tuple[float, float, float]] = field(default_factory=list)
    spent: dict[int, float] = field(default_factory=dict)
    batch: int = 50

    def words(self) -> list[str]:
        data = self.folder / "x.npz"
        if not data.exists():
            draw = np.random.default_rng(0)
            x = draw.random((self.samples, 1, 8, 8), dtype=np.float32)
            np.savez(data, x=x, y=draw.integers(0, 10, self.samples))
        return [
            *("audit", "--model=faulty:network", f"--data={data}", f"--out={self.folder / 'run'}"),
            *("--attribution=saliency", "--claim=first_order,adjusted", "--attack=ascent:steps=3"),
            *(f"--set=batch={self.batch}", "--workers=2", "--threads=1", "--resume", "--quiet"),
        ]

    def until(self, share: float) -> tuple[float, float]:
        """Audit to this share, then kill: seconds to the first new part, and in all."""
        start, before, first = time.monotonic(), self.done(), 0.0
        process = subprocess.Popen([sys.executable, "-m", "attribound.cli", *self.words()])
        while process.poll() is None:
            done = self.done()
            if done > before and not first:
                first = time.monotonic() - start
            if first:
                self.look(process.pid, done)
            if done >= share < 1:
                process.kill()
            time.sleep(0.25)
        expected = 0 if share == 1 else -signal.SIGKILL
        assert process.returncode == expected, process.returncode
        return first, time.monotonic() - start

    def done(self) -> float:
        """The share of the parts that are stored."""
        stored = sum(1 for _ in (self.folder / "run" / "parts").glob("*.parquet"))
        return stored * self.batch / self.samples

    def look(self, parent: int, done: float) -> None:
        """Note what the processes have taken so far."""
        workers = whose(parent, "worker")
        for each in (parent, *workers):
            if alive(each):
                fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
                ticks = int(fields[11]) + int(fields[12])
                self.spent[each] = ticks / os.sysconf("SC_CLK_TCK")
        if largest := max(map(megabytes, workers), default=0.0):  # not when they have gone home
            self.seen.append((done, megabytes(parent), largest))


def megabytes(process: int) -> float:
    """Memory that a process has now; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def long_audit(samples: int) -> None:
    """Audit, kill at half, resume, make the page; print what all that took."""
    with TemporaryDirectory() as name:
        long = Long(Path(name), samples)
        begun, half = long.until(0.5)
        middle = len(long.seen)
        resumed, rest = long.until(1)
        points = [(long.seen[:middle], (0.02, 0.25, 0.5)), (long.seen[middle:], (0.52, 0.75, 1))]
        lines = [
            (f"{100 * at:.0f} %", *(f"{value:.0f}" for value in near[1:]))
            for seen, shares in points
            for at in shares
            for near in [min(seen, key=lambda each: abs(each[0] - at))]
        ]
        title = f"{samples:,} samples of a tiny network, 2 workers, killed at half and resumed: MB"
        print(render(title, ("stored", "parent", "largest worker"), lines))
        cpu = sum(long.spent.values())
        print(f"samples a second: {samples / (half + rest):.0f}; a CPU-second: {samples / cpu:.0f}")
        print(f"seconds to the first batch: {begun:.1f} new, {resumed:.1f} resumed at half")
        started = time.monotonic()
        command = [sys.executable, "-m", "attribound.cli", "report", str(Path(name) / "run")]
        subprocess.run(command, check=True, capture_output=True)
        size = (Path(name) / "run" / "report.html").stat().st_size / 2**20
        print(f"page: {time.monotonic() - started:.1f} s, {size:.1f} MB")
        stored = sum(file.stat().st_size for file in Path(name, "run").rglob("*.parquet"))
        print(f"parts: {stored / 2**20:.1f} MB; load of the machine: {os.getloadavg()[0]:.1f}")


def spread(values: Iterable[float]) -> str:
    """The median of a ratio, and all its values."""
    values = list(values)
    return f"{median(values):.3f} ({', '.join(f'{value:.3f}' for value in values)})"


def main() -> None:
    """Time all rounds, print the ratios, check that the rows are the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, help="samples of one long audit, and nothing else")
    options = parser.parse_args()
    if options.long:
        long_audit(options.long)
        return
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
