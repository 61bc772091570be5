from __future__ import annotations

import pytest

from attribound.basics.tables import cell, render


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 / 3, "0.3333"), (123456.0, "1.235e+05"), (7, "7"), (True, "True"), ("ok", "ok")],
)
def test_cell(value, text) -> None:
    assert cell(value) == text


def test_table_is_a_title_a_header_a_rule_and_aligned_rows() -> None:
    lines = render("Title", ["name", "value"], [["a", 1 / 3], ["bcdef", 12]]).splitlines()
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "value"]
    assert [line.split() for line in lines[3:]] == [["a", "0.3333"], ["bcdef", "12"]]
    assert len({len(line) for line in lines[3:]}) == 1
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("count", "shown", "more"), [(20, 20, None), (25, 20, 5)])
def test_long_tables_are_cut_and_say_so(count, shown, more) -> None:
    lines = render("T", ["i"], [[f"row{i}"] for i in range(count)]).splitlines()
    assert sum("row" in line for line in lines) == shown
    assert (lines[-1] == f"... and {more} more") == (more is not None)


def test_text_in_brackets_is_not_markup() -> None:
    text = render("T", ["[dim]"], [["[bold]"]])
    assert "[dim]" in text
    assert "[bold]" in text


def test_is_text_in_a_notebook_too(monkeypatch, capsys) -> None:
    """Rich would display the table there instead of writing it."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "0.5" in render("T", ["value"], [[0.5]])
    assert capsys.readouterr().out == ""
