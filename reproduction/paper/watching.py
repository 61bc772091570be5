"""What blocks are at, in a line a minute for each: one may take an hour."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attribound.auditing import AtWork, meanwhile

#: Between two lines about a block.
_SECONDS = 60.0


class Blocks:
    """The blocks that are being measured, by their places: since when, and at which step.

    Args:
        say: told of each, once a minute.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun: dict[int, tuple[str, float]] = {}
        self._steps: dict[int, AtWork] = {}
        self._said: dict[int, float] = {}
        # Told by the run, read by the thread that says it.
        self._lock = threading.Lock()

    def begun(self, place: int, name: str) -> None:
        """A block is begun, or begun again."""
        now = time.monotonic()
        with self._lock:
            self._begun[place], self._said[place] = (name, now), now
            self._steps.pop(place, None)

    def told(self, step: AtWork) -> None:
        """A block is at this step."""
        with self._lock:
            self._steps[step.batch] = step

    def ended(self, place: int) -> None:
        """Nothing more is to be said of a block."""
        with self._lock:
            for known in (self._begun, self._steps, self._said):
                known.pop(place, None)

    def look(self) -> None:
        """Say of each block what it is at, if a minute is over."""
        now = time.monotonic()
        with self._lock:
            due = [place for place, said in self._said.items() if now - said >= _SECONDS]
            lines = [self._line(place, now) for place in due]
            self._said.update(dict.fromkeys(due, now))
        for line in lines:
            self._say(line)

    def _line(self, place: int, now: float) -> str:
        name, since = self._begun[place]
        line = f"{name}, {now - since:.0f} s"
        step = self._steps.get(place)
        return line if step is None else f"{line}, step {step.step} of {step.steps}: {step.doing}"


@contextmanager
def watched(say: Callable[[str], None]) -> Iterator[Blocks]:
    """Say what blocks are at while the context lasts."""
    blocks = Blocks(say)
    with meanwhile(blocks.look):
        yield blocks
