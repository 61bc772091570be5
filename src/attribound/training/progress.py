"""What is shown while a training runs: a live table, plain lines, or nothing."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from attribound.training.log import EvaluationRecord, LogRecord, StepRecord

#: Seconds between plain lines, and evaluations shown in the live table.
_PAUSE, _ROWS = 10.0, 8


class Display(ABC):
    """Shows a training of ``total`` steps that begins at ``step``."""

    def __init__(self, step: int, total: int) -> None:
        self.first, self.total = step, total

    @abstractmethod
    def advance(self, step: int) -> None:
        """That many steps are done."""

    @abstractmethod
    def show(self, record: LogRecord) -> None:
        """There is a new record."""

    def close(self) -> None:
        """The training ended."""
        return


class Nothing(Display):
    """Shows nothing."""

    def advance(self, step: int) -> None:
        """Nothing."""

    def show(self, record: LogRecord) -> None:
        """Nothing."""


class Lines(Display):
    """A line for every evaluation, and for what is new every ten seconds; for files and pipes."""

    def __init__(self, step: int, total: int) -> None:
        super().__init__(step, total)
        self._began = time.monotonic()
        self._last = float("-inf")

    def advance(self, step: int) -> None:
        """Nothing: lines come with records."""

    def show(self, record: LogRecord) -> None:
        """One line on standard error."""
        now = time.monotonic()
        if isinstance(record, StepRecord) and now - self._last < _PAUSE:
            return
        self._last = now
        done = max(record.step - self.first, 1)
        left = (now - self._began) / done * (self.total - record.step)
        eta = timedelta(seconds=round(left))
        sys.stderr.write(f"step {record.step}/{self.total}, ETA {eta}: {describe(record)}\n")
        sys.stderr.flush()


class LiveTable(Display):
    """A bar with the time left, the last losses, and the last evaluations, on a terminal."""

    def __init__(self, step: int, total: int, console: Console | None = None) -> None:
        super().__init__(step, total)
        self._bar = Progress(
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        )
        self._task = self._bar.add_task("training", total=total, completed=step)
        self._losses = ""
        self._evaluations: deque[EvaluationRecord] = deque(maxlen=_ROWS)
        console = console or Console(stderr=True)
        self._live = Live(self._drawn(), console=console, refresh_per_second=4)
        self._live.start()

    def advance(self, step: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=step)

    def show(self, record: LogRecord) -> None:
        """Draw anew."""
        if isinstance(record, StepRecord):
            self._losses = describe(record)
        else:
            self._evaluations.append(record)
        self._live.update(self._drawn())

    def close(self) -> None:
        """Leave the last drawing on the terminal."""
        self._live.stop()

    def _drawn(self) -> Group:
        table = Table("epoch", "clean", "adversarial", "top-k", "Kendall", box=None)
        for row in self._evaluations:
            alike = row.similarity
            table.add_row(
                f"{row.epoch:g}",
                percent(row.clean_accuracy),
                percent(row.adversarial_accuracy),
                percent(None if alike is None else alike.top_k.value),
                "-" if alike is None else f"{alike.kendall.value:.3f}",
            )
        return Group(self._bar, self._losses, table)


def describe(record: LogRecord) -> str:
    """A record in one line."""
    if isinstance(record, StepRecord):
        terms = ", ".join(f"{name} {value:.4g}" for name, value in record.terms.items())
        return (
            f"loss {record.loss:.4g} ({terms}), accuracy {percent(record.accuracy)}, "
            f"attacked {percent(record.attacked_accuracy)}, lr {record.lr:.3g}, "
            f"epsilon {record.epsilon:.3g}"
        )
    alike = record.similarity
    explained = (
        ""
        if alike is None
        else (
            f", attributions top-k {percent(alike.top_k.value)} Kendall {alike.kendall.value:.3f} "
            f"({alike.n} examples)"
        )
    )
    return (
        f"epoch {record.epoch:g}, held out: clean {percent(record.clean_accuracy)}, "
        f"adversarial {percent(record.adversarial_accuracy)}{explained}"
    )


def percent(share: float | None) -> str:
    """A share in percent, or a dash."""
    return "-" if share is None else f"{100 * share:.1f} %"


def display(step: int, total: int, *, shown: bool) -> Display:
    """The display for where standard error goes."""
    if not shown:
        return Nothing(step, total)
    return LiveTable(step, total) if sys.stderr.isatty() else Lines(step, total)
