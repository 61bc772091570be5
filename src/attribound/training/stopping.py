"""Ctrl-C and termination: finish the step, save, stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """The training was asked to stop, and saved its state first.

    Attributes:
        signal: the signal that asked.
    """

    def __init__(self, message: str, asked_by: int) -> None:
        super().__init__(message)
        self.signal = asked_by


class Stopper:
    """While the context lasts, the first signal to stop is noted in ``requested``.

    A second one stops at once, without saving. Outside the main thread, where Python
    has no signals, nothing is caught.
    """

    def __init__(self) -> None:
        self.requested = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Stopper:
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._note) for kind in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.requested:
            raise KeyboardInterrupt
        self.requested = number
