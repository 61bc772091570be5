"""How far an audit is, what it is at, when it will be done, and which claims were exceeded."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from attribound.auditing.at_work import AtWork, listener
from attribound.auditing.rows import COPY, long

#: Between two lines where no terminal shows a bar.
_SECONDS = 10.0
#: Between two looks at whether it is time for a line.
_LOOK = 1.0
#: A single batch may take minutes, and the rate must be that of several.
_RATE_SECONDS = 24 * 3600.0


class Watcher(Protocol):
    """Told of what happens in an audit."""

    def told(self, step: AtWork) -> None:
        """A batch is at this step."""

    def stored(self, number: int, samples: int, rows: pa.Table) -> None:
        """Batch ``number`` was stored: how many samples, and their rows."""


class Unseen:
    """Shows nothing; whoever listens where the audit was begun hears of its steps."""

    def __init__(self) -> None:
        self.told = listener()

    def stored(self, number: int, samples: int, rows: pa.Table) -> None:
        """Hear it."""


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


class Shown:
    """An audit of ``samples``, of which ``ready`` were there when it began."""

    def __init__(self, samples: int, ready: int, tally: Tally) -> None:
        self.samples, self.complete, self.tally = samples, ready, tally
        self._ready, self._started = ready, time.monotonic()
        self._steps: dict[int, tuple[AtWork, float]] = {}
        # Told by the audit, read by the thread that shows it.
        self._lock = threading.Lock()

    def told(self, step: AtWork) -> None:
        """A batch is at this step since now."""
        with self._lock:
            self._steps[step.batch] = step, time.monotonic()

    def stored(self, number: int, samples: int, rows: pa.Table) -> None:
        """Batch ``number`` was stored."""
        with self._lock:
            self._steps.pop(number, None)
            self.complete += samples
            self.tally.add(rows)

    def at(self) -> list[str]:
        """A line for each batch that is being measured, and for how long its step is."""
        now = time.monotonic()
        with self._lock:
            return [f"{step}, {now - since:.0f} s" for step, since in self._steps.values()]

    def __str__(self) -> str:
        """One line: ``audit 14/20, 31 s, 46 s left, exceeded: ...; batch 7, step 3 of 9: ...``."""
        at = self.at()
        with self._lock:
            spent, new = time.monotonic() - self._started, self.complete - self._ready
            left = f"{spent * (self.samples - self.complete) / new:.0f} s left, " if new else ""
            line = f"audit {self.complete}/{self.samples}, {spent:.0f} s, {left}{self.tally}"
        return "; ".join([line, *at])


@contextmanager
def shown(console: Console, samples: int, done: pa.Table, ready: int) -> Iterator[Watcher]:
    """Show progress of an audit of ``samples``, of which ``ready`` are ``done`` already.

    A bar on a terminal, with a line below it for each batch that is being measured; elsewhere a
    line every ten seconds, also while nothing is finished.
    """
    tally = Tally()
    tally.add(done)
    show = _on_terminal if console.is_terminal else _in_lines
    with show(console, Shown(samples, ready, tally)) as watcher:
        yield watcher


class _Bar(Progress):
    """The bar, and below it what is being done."""

    below: Shown | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for line in self.below.at() if self.below else ():
            yield Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis")


@contextmanager
def _on_terminal(console: Console, state: Shown) -> Iterator[Watcher]:
    with _Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]}", markup=False),
        console=console,
        speed_estimate_period=_RATE_SECONDS,
        refresh_per_second=4,
    ) as bar:
        bar.below = state
        total, ready = state.samples, state.complete
        task = bar.add_task("audit", total=total, completed=ready, found=str(state.tally))
        yield _AfterStoring(
            state, lambda: bar.update(task, completed=state.complete, found=str(state.tally))
        )


@contextmanager
def _in_lines(console: Console, state: Shown) -> Iterator[Watcher]:
    last, printing = time.monotonic(), threading.Lock()

    def line(*, now: bool = False) -> None:
        nonlocal last
        with printing:
            if now or time.monotonic() - last >= _SECONDS:
                last = time.monotonic()
                console.print(str(state), markup=False, highlight=False, soft_wrap=True)

    with meanwhile(line):
        yield _AfterStoring(state, lambda: line(now=state.complete == state.samples))


@contextmanager
def preparing(console: Console | None) -> Iterator[None]:
    """Say that model and data are being loaded, a smooth copy chosen, where that takes long."""
    if console is None:
        yield
        return
    started = last = time.monotonic()

    def look() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS:
            last = now
            spent = f"{now - started:.0f} s"
            console.print(f"audit: preparing model and data, {spent}", highlight=False)

    with meanwhile(look):
        yield


@contextmanager
def meanwhile(look: Callable[[], None]) -> Iterator[None]:
    """``look`` is called every second."""
    over = threading.Event()

    def again() -> None:
        while not over.wait(_LOOK):
            with suppress(OSError):  # a full disk under a log file ends no audit
                look()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _AfterStoring:
    """Does something whenever a batch was stored."""

    def __init__(self, state: Shown, then: Callable[[], None]) -> None:
        self.told, self._state, self._then = state.told, state, then

    def stored(self, number: int, samples: int, rows: pa.Table) -> None:
        self._state.stored(number, samples, rows)
        self._then()
