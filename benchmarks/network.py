"""``make bench-network``: what claims are worth for the network that people run.

ReLU networks are bounded through smooth copies, and attacked themselves. For each network,
attribution, ball and beta, test examples are audited block by block; rows go into one table, and
the report is made from that alone. Kill it at any time: at most the block in flight is lost, and
the same command goes on from there. ``--report`` only reports what is there so far.
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
from claims.running import computed, options
from claims.store import COPIED, RESULTS, Stored
from relu import certificates, smoothed, smoothed_report
from relu.measure import described, measure
from relu.networks import NETWORKS
from relu.plan import Block, Settings, plan
from relu.report import report

TEXT = Path(__file__).parent / "network.txt"
TABLE = "network.parquet"


def stored(folder: Path) -> Stored:
    """The table in a folder."""
    return Stored(folder / TABLE, COPIED)


def keys(block: Block, settings: Settings) -> dict[tuple[str, str, int, str], tuple[str, int]]:
    """What tells the rows of a block apart, with the copy and the place of each."""
    texts = {copy: described(block, copy, settings.seed) for copy in block.copies}
    return {
        (block.network, block.role, place, text): (copy, place)
        for copy, text in texts.items()
        for place in block.examples
    }


def missing(table: Stored, settings: Settings) -> list[Block]:
    """What of the plan is not there with these settings; blocks shrink to what they lack."""
    there = table.keys()
    found = []
    for block in plan(settings):
        lacking: dict[int, list[str]] = {}
        for key, (copy, place) in keys(block, settings).items():
            if key not in there:
                lacking.setdefault(place, []).append(copy)
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, copies in sorted(lacking.items()):
            alike.setdefault(tuple(copies), []).append(place)
        found += [
            replace(block, copies=copies, examples=tuple(own)) for copies, own in alike.items()
        ]
    return found


def wanted(table: Stored, settings: Settings) -> pa.Table:
    """The rows of the plan with these settings, and no others."""
    return table.only({key for block in plan(settings) for key in keys(block, settings)})


def recipe(seed: int) -> partial[pa.Table]:
    """What measures blocks, in a worker, too."""
    return partial(measure, seed=seed)


def run(table: Stored, settings: Settings, jobs: int) -> None:
    """Compute what is missing with ``jobs`` processes of one thread each."""
    for _, rows in computed(missing(table, settings), partial(recipe, settings.seed), jobs):
        table.add(rows)


def told(table: Stored, settings: Settings) -> str:
    """The report, with what it lacks before it."""
    lacks = [each.missing for each in NETWORKS.values() if each.name in settings.networks]
    notes = [f"{reason}." for reason in lacks if reason]
    left, blocks = len(missing(table, settings)), len([*plan(settings)])
    if left:
        notes.append(f"{left} of {blocks} blocks are not measured yet: this is about the rest.")
    return "\n\n".join([*notes, report(wanted(table, settings))])


def smoothed_told(table: Stored) -> str:
    """The report about averaged maps, with what it lacks before it."""
    settings = smoothed.Smoothing()
    left, all_of_it = len(smoothed.missing(table, settings)), len([*smoothed.plan(settings)])
    note = (
        f"Averaged maps: {left} of {all_of_it} examples are not measured yet.\n\n" if left else ""
    )
    return f"{note}{smoothed_report.report(table.rows)}"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line: how much to compute, with how many processes."""
    parser = options(__doc__, Settings, RESULTS, TEXT)
    return parser.parse_args(given)


def main() -> None:
    """Compute what is missing, report."""
    given = arguments()
    settings = ab.from_spec(changed({}, given.set), Settings)
    torch.set_num_threads(1)
    if not given.report:
        given.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(given.folder)
        certificates.run(given.folder, settings.mlp, settings.cnn)
        run(stored(given.folder), settings, given.jobs)
        smoothed.run(smoothed.stored(given.folder / smoothed.TABLE.name), smoothed.Smoothing())
        lock.release()
    averaged = smoothed.stored(given.folder / smoothed.TABLE.name)
    texts = {given.text: told(stored(given.folder), settings)}
    texts[given.text.with_name("smoothed.txt")] = smoothed_told(averaged)
    own = certificates.stored(given.folder)
    texts[given.text.with_name("certificates.txt")] = certificates.told(own)
    for path, text in texts.items():
        path.write_text(text + "\n")
        print(text)


if __name__ == "__main__":
    main()
