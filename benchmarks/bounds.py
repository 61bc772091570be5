"""``make bench-bounds``: every claim against attacks, on trained networks.

For each network, attribution and ball, bounds and attacks of test images (and of others,
to calibrate on) are stored row by row, and a second pass of attacks beside them; the report
is made from the rows alone. Kill it at any time: at most the batches in flight are lost, and
the same command goes on from there. ``--report`` only reports what is there so far; ``--deeper``
searches again, and more, where mean-value bounds were broken.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch

from claims import deeper, store
from claims.measure import described, measure
from claims.plan import RESULTS, Part, Settings, plan
from claims.report import report

TABLE = RESULTS / "bounds.parquet"
TEXT = Path(__file__).parent / "bounds.txt"
DEEPER = Path(__file__).parent / "deeper.txt"


def compute(part: Part, settings: Settings) -> bool:
    """Measure and store a part, unless it is there or another process is at it."""
    path, text = part.path(settings.parts), described(part, settings)
    if store.done(path, text):
        return False
    with store.claimed(path) as mine:
        if not mine or store.done(path, text):
            return False
        column = json.dumps(text, sort_keys=True)
        store.write(path, [{**row, "settings": column} for row in measure(part, settings)], text)
    return True


def work(settings: Settings, parent: int | None = None) -> None:
    """Compute every part that is left, one after the other; stop when the parent is gone."""
    torch.set_num_threads(1)
    parts = [*plan(settings)]
    started = time.perf_counter()
    for number, part in enumerate(parts, 1):
        if parent is not None and os.getppid() != parent:
            return
        begun = time.perf_counter()
        if compute(part, settings):
            now = time.perf_counter()
            print(
                f"{now - started:7.0f} s  {number}/{len(parts)}  {part.cell} {part.kind} "
                f"{part.number}: {now - begun:.1f} s",
                flush=True,
            )


def run(settings: Settings, jobs: int) -> None:
    """Compute with ``jobs`` processes of one thread each."""
    if jobs == 1:
        work(settings)
        return
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(settings, os.getpid())) for _ in range(jobs)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.terminate()
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        raise SystemExit(f"{len(failed)} of {jobs} processes failed; see above, then run again")


def combine(settings: Settings) -> tuple[list[store.Row], str]:
    """The rows of all parts that are there with these settings, and what is missing."""
    rows: list[store.Row] = []
    missing = []
    parts = [*plan(settings)]
    for part in parts:
        path = part.path(settings.parts)
        if store.done(path, described(part, settings)):
            rows += store.read(path)
        else:
            missing.append(part)
    again = sum(part.again for part in missing)
    lacks = (
        f"{len(missing)} of {len(parts)} parts are not measured yet, {again} of them second passes"
        " of attacks: this is about the rest.\n\n"
    )
    return rows, lacks if missing else ""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line: how much to compute, with how many processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for each in fields(Settings):
        flag = f"--{each.name.replace('_', '-')}"
        if each.name == "networks":
            parser.add_argument(flag, nargs="+", default=each.default, choices=each.default)
        else:
            parser.add_argument(flag, type=type(each.default), default=each.default)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only report what is there")
    parser.add_argument(
        "--deeper",
        action="store_true",
        help="only search again, and more, where the stored mean-value bounds were broken",
    )
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--text", type=Path, default=TEXT)
    return parser.parse_args(given)


def main() -> None:
    """Compute what is missing, put it together, report."""
    given = arguments()
    chosen = {each.name: getattr(given, each.name) for each in fields(Settings)}
    settings = Settings(**{**chosen, "networks": tuple(chosen["networks"])})
    torch.set_num_threads(1)
    if given.deeper:
        text = deeper.report(store.read(given.table), settings.seed)
        DEEPER.write_text(text + "\n")
        print(text)
        return
    if not given.report:
        run(settings, given.jobs)
    rows, lacks = combine(settings)
    kept = {name: str(value) for name, value in chosen.items() if name != "parts"}
    store.write(given.table, rows, kept)
    text = lacks + report(store.read(given.table))
    given.text.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
