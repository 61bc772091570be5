"""Compute blocks one after the other, or several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

import attribound as ab
from attribound.auditing.engines import Work

_Block = TypeVar("_Block")


def computed(
    blocks: Sequence[_Block], prepare: Callable[[], Callable[[_Block], pa.Table]], jobs: int
) -> Iterator[tuple[_Block, pa.Table]]:
    """Every block with its rows, as they come, by ``jobs`` processes of one thread each.

    ``prepare`` gives what measures a block, in a worker, too.
    """
    work = Work(prepare(), prepare, blocks.__getitem__, given_up)
    started = time.perf_counter()
    results = ab.LocalEngine(jobs, threads=1).run(work, range(len(blocks)))
    for done, (number, rows) in enumerate(results, 1):
        yield blocks[number], rows
        elapsed = time.perf_counter() - started
        print(f"{elapsed:7.0f} s  {done}/{len(blocks)}  {blocks[number]}", flush=True)


def given_up(number: int, reason: str) -> pa.Table:
    """A block that cannot be computed ends it all."""
    raise SystemExit(f"block {number}: {reason}; run again to go on")
