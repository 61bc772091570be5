"""How far an audit is, when it will be done, and which claims were exceeded so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from attribound.auditing.rows import COPY, long

#: Between two lines where no terminal shows a bar.
_SECONDS = 30.0
#: A single batch may take minutes, and the rate must be that of several.
_RATE_SECONDS = 24 * 3600.0


#: Told of every batch that was stored: how many samples, and their rows.
Watcher = Callable[[int, pa.Table], None]


class Tally:
    """Counts of exceeded bounds and failed rows."""

    def __init__(self) -> None:
        self._exceeded: Counter[str] = Counter()
        self._compared: Counter[str] = Counter()
        self._yours: Counter[str] = Counter()
        self._copies = False
        self._failed = 0

    def add(self, rows: pa.Table) -> None:
        """Count these rows, too."""
        columns = ["claim", "subject", "exceeded", "yours_exceeded"]
        for bound in long(rows, "bounds").select(columns).to_pylist():
            self._copies |= bound["subject"] == COPY
            self._yours[bound["claim"]] += bool(bound["yours_exceeded"])
            if bound["exceeded"] is not None:
                self._exceeded[bound["claim"]] += bound["exceeded"]
                self._compared[bound["claim"]] += 1
        self._failed += len(rows) - rows["error"].null_count

    def __str__(self) -> str:
        """E.g. ``exceeded: first-order 3/40, mean-value 0/40; 2 rows failed``.

        With a smooth copy also how many were exceeded on the network that it stands for.
        """

        def yours(claim: str) -> str:
            return f" ({self._yours[claim]} on your network)" if self._copies else ""

        shares = ", ".join(
            f"{claim.replace('_', '-')} {self._exceeded[claim]}/{compared}{yours(claim)}"
            for claim, compared in self._compared.items()
        )
        failed = f"; {self._failed} rows failed" if self._failed else ""
        return f"exceeded: {shares or 'no claims'}{failed}"


@contextmanager
def shown(console: Console, samples: int, done: pa.Table, ready: int) -> Iterator[Watcher]:
    """Show progress of an audit of ``samples``, of which ``ready`` are ``done`` already.

    A bar on a terminal; elsewhere a line every half a minute.
    """
    tally = Tally()
    tally.add(done)
    if console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task("audit", total=samples, completed=ready, found=str(tally))

            def advance(count: int, rows: pa.Table) -> None:
                tally.add(rows)
                bar.update(task, advance=count, found=str(tally))

            yield advance
    else:
        yield _lines(console, samples, ready, tally)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]}", markup=False),
        console=console,
        speed_estimate_period=_RATE_SECONDS,
    )


def _lines(console: Console, samples: int, ready: int, tally: Tally) -> Watcher:
    started = last = time.monotonic()
    complete = ready

    def advance(count: int, rows: pa.Table) -> None:
        nonlocal complete, last
        tally.add(rows)
        complete += count
        now = time.monotonic()
        if now - last >= _SECONDS or complete == samples:
            last = now
            left = (now - started) * (samples - complete) / (complete - ready)
            console.print(
                f"audit {complete}/{samples}, {now - started:.0f} s, {left:.0f} s left, {tally}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    return advance


def nothing(samples: int, rows: pa.Table) -> None:
    """Show no progress."""
