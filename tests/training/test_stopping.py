"""Signals are noted once, and raise the second time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from attribound.training import stopping
from attribound.training.stopping import Stopped, Stopper


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_the_second_stops(kind) -> None:
    before = signal.getsignal(kind)
    with Stopper() as stopper:
        assert stopper.requested == 0
        signal.raise_signal(kind)
        assert stopper.requested == kind
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(kind)
    assert signal.getsignal(kind) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_handlers_are_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="boom"), Stopper():
        raise RuntimeError("boom")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_no_signals() -> None:
    found = []

    def work() -> None:
        with Stopper() as stopper:
            found.append(stopper.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]


def test_stopped_knows_the_signal() -> None:
    assert Stopped("x", signal.SIGTERM).signal == 15


def test_a_long_step_is_broken_off() -> None:
    begun = time.monotonic()

    def step() -> None:
        signal.raise_signal(signal.SIGTERM)
        while time.monotonic() - begun < 60:
            time.sleep(0.01)

    with pytest.raises(Stopped, match="last checkpoint") as stopped, Stopper(seconds=0.2):
        step()
    assert stopped.value.signal == signal.SIGTERM
    assert time.monotonic() - begun < 30


def test_what_follows_the_step_is_not() -> None:
    with Stopper(seconds=0.05) as stopper:
        signal.raise_signal(signal.SIGTERM)
        stopper.in_time()
        time.sleep(0.2)


#: A signal in a single operation that hears nothing, as a pass backwards. The file alone is loaded.
DEAF = """
import hashlib, os, runpy, signal, sys, threading
Stopper = runpy.run_path(sys.argv[1])["Stopper"]
with Stopper(seconds=0.2):
    threading.Timer(0.2, os.kill, [os.getpid(), signal.Signals[sys.argv[2]]]).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", int(sys.argv[3]))
    while True:
        pass
"""


def deaf(kind: str, effort: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", DEAF, str(stopping.__file__), kind, str(effort)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_on_termination_a_single_operation_is_ended_with_its_process() -> None:
    ended = deaf("SIGTERM", 10**9)  # many minutes
    assert ended.returncode == 143
    assert ended.stderr.count("\n") == 1
    assert "--resume (resume=True) goes on from the last checkpoint" in ended.stderr


def test_ctrl_c_never_ends_the_program_around_a_training() -> None:
    ended = deaf("SIGINT", 10**6)  # longer than the time after which termination ends it
    assert "Stopped: stopped in the middle of a step" in ended.stderr  # the program may catch it
