"""``make bench-bounds``: every claim against attacks, on trained networks.

For each network, attribution and ball, test images (and others, to calibrate on) are audited
block by block; rows go into one table, and the report is made from that alone. Kill it at any
time: at most the blocks in flight are lost, and the same command goes on from there.
``--report`` only reports what is there so far; ``--deeper`` searches again, and more, where
mean-value bounds were exceeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import torch

import attribound as ab
from attribound.basics.locking import Lock
from attribound.values import changed
from claims import deeper
from claims.measure import described, measure
from claims.plan import Block, Settings, plan
from claims.report import report
from claims.running import computed, options
from claims.store import BOUNDS, LINEAR, RESULTS, Stored

TEXT = Path(__file__).parent / "bounds.txt"
DEEPER = Path(__file__).parent / "deeper.txt"


class Tables:
    """Both tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.bounds = Stored(folder / "bounds.parquet", BOUNDS)
        self.linear = Stored(folder / "linear.parquet", LINEAR)

    def missing(self, settings: Settings) -> list[Block]:
        """What of the plan is not there with these settings; blocks shrink to what they lack."""
        there = self.bounds.keys() | self.linear.keys()
        lacks = ((block, _keys(block, settings) - there) for block in plan(settings))
        return [
            replace(block, images=tuple(sorted(k[2] for k in own))) for block, own in lacks if own
        ]

    def wanted(self, settings: Settings) -> tuple[pa.Table, pa.Table]:
        """The rows of the plan with these settings, and no others."""
        keys = {key for block in plan(settings) for key in _keys(block, settings)}
        return self.bounds.only(keys), self.linear.only(keys)


def _keys(block: Block, settings: Settings) -> set[tuple[str, str, int, str]]:
    text = described(block, settings.seed)
    return {(block.network, block.role, place, text) for place in block.images}


def recipe(seed: int) -> partial[pa.Table]:
    """What measures blocks, in a worker, too."""
    return partial(measure, seed=seed)


def run(tables: Tables, settings: Settings, jobs: int) -> None:
    """Compute what is missing with ``jobs`` processes of one thread each."""
    prepare = partial(recipe, settings.seed)
    for block, rows in computed(tables.missing(settings), prepare, jobs):
        (tables.linear if block.ball is None else tables.bounds).add(rows)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line: how much to compute, with how many processes."""
    parser = options(__doc__, Settings, RESULTS, TEXT)
    parser.add_argument(
        "--deeper",
        action="store_true",
        help="only search again, and more, where the stored mean-value bounds were exceeded",
    )
    return parser.parse_args(given)


def main() -> None:
    """Compute what is missing, report."""
    given = arguments()
    settings = ab.from_spec(changed({}, given.set), Settings)
    torch.set_num_threads(1)
    if not (given.report or given.deeper):
        given.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(given.folder)
        run(Tables(given.folder), settings, given.jobs)
        lock.release()
    tables = Tables(given.folder)
    bounds, linear = tables.wanted(settings)
    if given.deeper:
        path, text = DEEPER, deeper.report(bounds, settings.seed)
    else:
        missing, blocks = len(tables.missing(settings)), len([*plan(settings)])
        lacks = f"{missing} of {blocks} blocks are not measured yet: this is about the rest.\n\n"
        path, text = given.text, (lacks if missing else "") + report(bounds, linear)
    path.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
