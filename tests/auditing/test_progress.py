"""Progress: counts that are right, a bar for terminals, lines for files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from io import StringIO
from time import monotonic, sleep

import pyarrow as pa
import pytest
from rich.console import Console

from attribound.auditing import progress
from attribound.auditing.at_work import AtWork, heard_by
from attribound.auditing.progress import Shown, Tally, Unseen, shown
from attribound.auditing.rows import SCHEMA, table


def rows(exceeded: list[bool | None], errors: list[str | None] | None = None) -> pa.Table:
    told = errors or [None] * len(exceeded)
    made = [
        {
            **dict.fromkeys(("sample", "batch", "label", "features"), number),
            "attribution": "ig",
            "ball": "l2",
            "epsilon": 0.1,
            "error": error,
            "bounds": [] if error else [{"claim": "first_order", "exceeded": over}],
            "attacks": [],
        }
        for number, (over, error) in enumerate(zip(exceeded, told, strict=True))
    ]
    return table(made, SCHEMA)


def test_exceeded_bounds_are_counted_among_those_compared() -> None:
    tally = Tally()
    tally.add(rows([True, False, None, None], [None, None, None, "failed"]))
    tally.add(rows([True]))
    assert str(tally) == "exceeded: first-order 2/3; 1 rows failed"


def test_with_a_copy_what_was_exceeded_on_the_network_is_said_too() -> None:
    plain = rows([True, False]).to_pylist()
    for row, over in zip(plain, (True, True), strict=True):
        row["bounds"][0] |= {"subject": "copy", "yours_exceeded": over}
    tally = Tally()
    tally.add(table(plain, SCHEMA))
    assert str(tally) == "exceeded: first-order 1/2 (2 on your network)"


def test_rows_without_claims() -> None:
    tally = Tally()
    tally.add(SCHEMA.empty_table())
    tally.add(rows([None], ["failed"]).slice(1))
    assert str(tally) == "exceeded: no claims"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_file_gets_a_line_now_and_then_and_one_at_the_end(clock: list[float]) -> None:
    text = StringIO()
    console = Console(file=text, width=20)
    with shown(console, 20, rows([True]), ready=10) as watch:
        for number, seconds in enumerate((3, 12, 15, 18, 30)):
            clock[0] = seconds
            watch.stored(number, 2, rows([False]))
    assert text.getvalue().splitlines() == [
        "audit 14/20, 12 s, 18 s left, exceeded: first-order 1/3",
        "audit 20/20, 30 s, 0 s left, exceeded: first-order 1/6",
    ]


def test_a_file_gets_lines_while_a_batch_is_being_measured(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored and nothing is told for minutes: what it is at is said nevertheless."""
    monkeypatch.setattr(progress, "_LOOK", 0.001)
    text = StringIO()
    with shown(Console(file=text, width=20), 20, rows([]), ready=0) as watch:
        watch.told(AtWork(0, 3, 9, "ig, l2 0.1, mean-value"))
        for seconds in (11, 15, 22):
            clock[0] = seconds
            until(lambda due=seconds // 10: len(text.getvalue().splitlines()) == due)
    at = "exceeded: no claims; batch 0, step 3 of 9: ig, l2 0.1, mean-value"
    assert text.getvalue().splitlines() == [
        f"audit 0/20, 11 s, {at}, 11 s",
        f"audit 0/20, 22 s, {at}, 22 s",
    ]


def test_long_preparations_are_told_of_and_short_ones_are_not(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LOOK", 0.001)
    text = StringIO()
    with progress.preparing(Console(file=text, width=80)):
        for seconds in (9, 11, 15, 21):
            clock[0] = seconds
            until(lambda due=seconds // 10: len(text.getvalue().splitlines()) == due)
    assert text.getvalue().splitlines() == [
        "audit: preparing model and data, 11 s",
        "audit: preparing model and data, 21 s",
    ]
    with progress.preparing(None):  # nothing is shown to nobody
        clock[0] = 99


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end
        sleep(0.001)


def test_a_file_that_is_full_ends_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOOK", 0.001)
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    tried = threading.Event()

    class Gone(StringIO):
        def write(self, text: str) -> int:
            tried.set()
            raise OSError(28, "No space left on device")

    with shown(Console(file=Gone(), width=20), 20, rows([]), ready=0) as watch:
        assert tried.wait(30)
        watch.told(AtWork(0))


def test_what_every_batch_is_at_and_since_when(clock: list[float]) -> None:
    state = Shown(20, 0, Tally())
    assert state.at() == []
    state.told(AtWork(0, 1, 4, "ig, l2 0.1, first-order"))
    clock[0] = 5
    state.told(AtWork(3))
    state.told(AtWork(0, 2, 4, "ig, l2 0.1, pgd"))
    clock[0] = 7
    assert state.at() == ["batch 0, step 2 of 4: ig, l2 0.1, pgd, 2 s", "batch 3, 2 s"]
    state.stored(0, 4, rows([True]))
    assert state.at() == ["batch 3, 2 s"]
    assert str(state) == "audit 4/20, 7 s, 28 s left, exceeded: first-order 1/1; batch 3, 2 s"


def test_a_terminal_gets_a_bar_with_counts_and_what_it_is_at() -> None:
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    with shown(console, 4, rows([]), ready=0) as watch:
        watch.told(AtWork(0, 1, 2, "ig [x], l2 0.1, mean-value"))
        until(lambda: "batch 0, step 1 of 2: ig [x], l2 0.1, mean-value" in text.getvalue())
        watch.stored(0, 4, rows([True, False]))
    assert "4/4" in text.getvalue()
    assert "exceeded: first-order 1/2" in text.getvalue()
    assert "batch 0" not in text.getvalue().rpartition("4/4")[2]


def test_who_listens_around_an_unseen_audit_hears_it() -> None:
    heard: list[AtWork] = []
    with heard_by(heard.append):
        unseen = Unseen()
    unseen.told(AtWork(3))
    assert heard == [AtWork(3)]


def test_nothing_is_shown_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    Unseen().told(AtWork(0))
    Unseen().stored(0, 3, rows([True]))
    assert capsys.readouterr() == ("", "")
