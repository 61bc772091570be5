"""Progress: counts that are right, a bar for terminals, lines for files."""

from __future__ import annotations

from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from attribound.auditing import progress
from attribound.auditing.progress import Tally, nothing, shown
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


def test_a_file_gets_a_line_now_and_then_and_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    text = StringIO()
    console = Console(file=text, width=20)
    with shown(console, 20, rows([True]), ready=10) as watch:
        for seconds in (10, 31, 40, 50, 70):
            now[0] = seconds
            watch(2, rows([False]))
    assert text.getvalue().splitlines() == [
        "audit 14/20, 31 s, 46 s left, exceeded: first-order 1/3",
        "audit 20/20, 70 s, 0 s left, exceeded: first-order 1/6",
    ]


def test_a_terminal_gets_a_bar_with_counts() -> None:
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    with shown(console, 4, rows([]), ready=0) as watch:
        watch(4, rows([True, False]))
    assert "4/4" in text.getvalue()
    assert "exceeded: first-order 1/2" in text.getvalue()


def test_nothing_is_shown_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    nothing(3, rows([True]))
    assert capsys.readouterr() == ("", "")
