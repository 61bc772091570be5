"""Signals are noted once, and raise the second time."""

from __future__ import annotations

import signal
import threading
import time

import pytest

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
