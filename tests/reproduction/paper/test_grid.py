"""Tables as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json

import pytest

from reproduction.paper.grid import Column, Columns, Grid, Line, Section

COLUMNS = (
    Column("attack", "T̂", r"$\hat T$"),
    Column("bound", "T", "$T$", digits=2, bracket="exceeded"),
)
HERE = Line(
    "a_b", ({"attack": 0.12345, "bound": 1.5, "exceeded": 2.0, "n": 8.0},), ({"bound": 3.0},)
)
GONE = Line("100 %", ({},), ({},), "not there yet")
GRID = Grid("t", "Title", (Section("MNIST", (Columns("", COLUMNS),), (HERE, GONE)),), ("a note",))
TWO = Grid(
    "two",
    "Two",
    tuple(
        Section(name, (Columns("ε = 1", COLUMNS), Columns("ε = 2", COLUMNS[:1])), (row,))
        for name, row in (
            ("l2", Line("x", ({"attack": 1.0, "n": 2.0}, {}), ({}, {"attack": 2.0}))),
            ("l∞", Line("y", ({}, {}), ({}, {}), "gone")),
        )
    ),
)


def test_markdown_has_ours_and_the_papers_in_parentheses() -> None:
    lines = GRID.markdown().splitlines()
    assert lines[2] == "| MNIST | n | T̂ | T |"
    assert lines[4] == "| a_b | 8 | 0.1235 | 1.50 [2.00%] (3.00) |"
    assert lines[5] == "| 100 % (not there yet) | - | - | - |"
    assert lines[-1] == "- a note"


def test_latex_has_one_head_and_escapes_names() -> None:
    text = GRID.latex()
    assert text.count(r"Model & $\hat T$ & $T$ \\") == 1
    assert r"a\_b & 0.1235 & 1.50 [2.00\%] {\scriptsize(3.00)} \\" in text
    assert r"100 \% & \multicolumn{2}{c}{not there yet} \\" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\bottomrule")] == [1, 1]


def test_groups_have_rules_below_their_titles() -> None:
    text = TWO.latex()
    assert r"\begin{tabular}{lcc|c}" in text
    assert text.count(r"\cmidrule(r){2-3}\cmidrule(r){4-4}") == 2
    assert r"l$\infty$ & $\hat T$ & $T$ & $\hat T$ \\" in text
    assert r"x & 1.0000 & - & - {\scriptsize(2.0000)} \\" in text


@pytest.mark.parametrize(("grid", "width"), [(GRID, 3), (TWO, 4)])
def test_every_row_of_latex_has_all_columns(grid, width) -> None:
    rows = [line for line in grid.latex().splitlines() if line.endswith(r"\\")]
    plain = [line for line in rows if "multicolumn" not in line]
    assert plain
    assert {len(line.split("&")) for line in plain} == {width}


@pytest.mark.parametrize("grid", [GRID, TWO])
def test_json_gives_the_table_back(grid, tmp_path) -> None:
    paths = grid.write(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"{grid.name}.{end}" for end in ("md", "tex", "json")]
    again = Grid.of(json.loads(paths[2].read_text()))
    assert again.markdown() == grid.markdown()
    assert again.latex() == grid.latex()
    assert paths[0].read_text() == grid.markdown() + "\n"
