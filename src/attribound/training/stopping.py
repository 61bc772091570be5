"""Ctrl-C and termination: finish the step if it is short, save, stop."""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
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

    If the step then takes longer than ``seconds``, it is broken off: resuming begins at the
    last checkpoint. A second signal stops at once, without saving. Python hears signals between
    two operations only, and one pass backwards is one operation, which may take minutes: a
    process that was told to terminate and has not done so after twice ``seconds`` is ended,
    with exit code 143. Outside the main thread, where Python has no signals, nothing is caught.
    """

    def __init__(self, seconds: float = 5.0) -> None:
        self.requested = 0
        self._late = False
        self._ended = threading.Event()
        self._told: tuple[socket.socket, socket.socket] | None = None
        self._wakeup = -1
        self._timer: threading.Timer | None = None
        self._seconds = seconds
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Stopper:
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._note) for kind in _SIGNALS}
            # The system writes the number of a signal there, whatever Python is at.
            ours, theirs = self._told = socket.socketpair()
            theirs.setblocking(False)
            self._wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=[ours], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.in_time()
        if self._told is not None:
            signal.set_wakeup_fd(self._wakeup)
            self._told[1].close()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def in_time(self) -> None:
        """The step is over: what follows is not broken off."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._late:
            self._ended.set()
            raise Stopped(self._why, number)
        if self.requested:
            raise KeyboardInterrupt
        self.requested = number
        self._timer = threading.Timer(self._seconds, self._break_off, [number])
        self._timer.daemon = True
        self._timer.start()

    def _break_off(self, number: int) -> None:
        self._late = True
        _thread.interrupt_main(signal.Signals(number))  # runs the handler above in the main thread

    def _watch(self, told: socket.socket) -> None:
        """End the process if it doesn't end by itself; until the other side is closed."""
        with told:
            while numbers := told.recv(1):
                late = numbers[0] == signal.SIGTERM and not self._ended.wait(2 * self._seconds)
                if late:  # as without a handler: what is stored is whole
                    sys.stderr.write(f"attribound: {self._why}\n")
                    sys.stderr.flush()
                    os._exit(128 + signal.SIGTERM)

    @property
    def _why(self) -> str:
        return (
            f"stopped in the middle of a step that took longer than {self._seconds:g} s: "
            "--resume (resume=True) goes on from the last checkpoint"
        )
