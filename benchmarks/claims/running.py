"""Compute blocks one after the other, or several at once."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
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


def options(doc: str, settings: type, folder: Path, text: Path) -> argparse.ArgumentParser:
    """The command line of a benchmark that is stored in tables and told as a text."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"of {', '.join(each.name for each in fields(settings))}",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only report what is there")
    parser.add_argument("--folder", type=Path, default=folder, help="of the tables")
    parser.add_argument("--text", type=Path, default=text)
    return parser


def refuse_unknown(networks: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a network that there is not: nothing would be measured."""
    names = [*known]
    unknown = ", ".join(repr(name) for name in networks if name not in names)
    if unknown:
        raise ab.InputError(
            "networks", expected=f"some of {', '.join(names)}", got=unknown, remedy="choose others"
        )
