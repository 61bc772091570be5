"""What is said of a block that takes long."""

from __future__ import annotations

import time

import pytest

from attribound.auditing.at_work import AtWork
from reproduction.paper import watching
from reproduction.paper.watching import Blocks, watched


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    return now


def test_a_line_a_minute_says_what_a_block_is_at(clock) -> None:
    said: list[str] = []
    blocks = Blocks(said.append)
    blocks.begun(3, "mnist/ce/ours: sample 0")
    clock[0] += 59
    blocks.look()
    assert said == []
    clock[0] += 1
    blocks.look()
    assert said == ["mnist/ce/ours: sample 0, 60 s"]
    blocks.told(AtWork(3, 2, 9, "ig [x], l2 0.1, ascent"))
    clock[0] += 30
    blocks.begun(4, "mnist/at/ours: sample 0")
    blocks.look()
    assert len(said) == 1
    clock[0] += 30
    blocks.look()
    step = "step 2 of 9: ig [x], l2 0.1, ascent"
    assert said[1:] == [f"mnist/ce/ours: sample 0, 120 s, {step}"]
    clock[0] += 30
    blocks.look()
    assert said[2:] == ["mnist/at/ours: sample 0, 60 s"]


def test_of_what_ended_nothing_is_said(clock) -> None:
    said: list[str] = []
    blocks = Blocks(said.append)
    blocks.begun(0, "a")
    blocks.told(AtWork(0, 1, 2, "x"))
    blocks.ended(0)
    blocks.ended(7)  # never begun
    clock[0] += 1000
    blocks.look()
    assert said == []
    blocks.told(AtWork(0, 2, 2, "late"))
    blocks.begun(0, "a, again")  # its process died
    clock[0] += 60
    blocks.look()
    assert said == ["a, again, 60 s"]


def test_it_is_said_while_nothing_else_happens(monkeypatch) -> None:
    monkeypatch.setattr(watching, "_SECONDS", 0.1)
    said: list[str] = []
    with watched(said.append) as blocks:
        blocks.begun(0, "a")
        end = time.monotonic() + 30
        while not said and time.monotonic() < end:
            time.sleep(0.05)
    assert said[0].startswith("a, ")
