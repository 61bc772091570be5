"""What is shown: lines, a table, nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from attribound.metrics import Mean, Similarity
from attribound.training import progress
from attribound.training.log import EvaluationRecord, StepRecord
from attribound.training.progress import Lines, LiveTable, Nothing, display


def steps(step: int) -> StepRecord:
    terms = {"ce": 1.25, "kl": 0.75}
    return StepRecord(step, 0.5, 0.1, 0.01, 2.0, terms, 1.0, 0.5, 0.25, 3.0, 4.0)


def evaluation(step: int) -> EvaluationRecord:
    mean = Mean(0.5, 0.1, 7)
    alike = Similarity(mean, mean, mean, mean, k=6, misclassified=3)
    return EvaluationRecord(step, 1.0, 0.9, 0.625, alike, None, 1.0, 2.0)


def test_lines_tell_terms_accuracies_similarity_and_time_left(capsys, monkeypatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    lines = Lines(10, 110)
    clock[0] = 120.0
    lines.show(steps(30))
    clock[0] = 121.0
    lines.show(steps(31))  # too soon
    lines.show(evaluation(32))
    clock[0] = 132.0
    lines.show(steps(33))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert told[0].startswith("step 30/110, ETA 0:01:20: loss 2 (ce 1.25, kl 0.75), accuracy 50.0")
    assert "held out: clean 90.0 %, adversarial 62.5 %, attributions top-k 50.0 % " in told[1]
    assert "Kendall 0.500 (7 examples)" in told[1]


def test_the_live_table_shows_the_same() -> None:
    out = io.StringIO()
    table = LiveTable(0, 20, Console(file=out, force_terminal=True, width=100, color_system=None))
    table.show(steps(5))
    table.show(evaluation(10))
    table.show(EvaluationRecord(10, 2.0, 0.9, None, None, None, 1.0, 2.0))
    table.advance(10)
    table.close()
    shown = out.getvalue()
    for words in ("loss 2 (ce 1.25, kl 0.75)", "10/20", "90.0 %", "62.5 %", "0.500", "Kendall"):
        assert words in shown


def test_the_display_is_chosen_by_where_it_goes(monkeypatch) -> None:
    assert isinstance(display(0, 1, shown=False), Nothing)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(display(0, 1, shown=True), Lines)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", terminal)
    live = display(0, 1, shown=True)
    live.close()
    assert isinstance(live, LiveTable)


def test_nothing_shows_nothing(capsys) -> None:
    nothing = Nothing(0, 1)
    nothing.advance(1)
    nothing.show(steps(1))
    nothing.close()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("share", "text"), [(None, "-"), (0.1234, "12.3 %")])
def test_shares_are_percent(share, text) -> None:
    assert progress.percent(share) == text
