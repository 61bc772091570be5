"""The transcription of the paper's tables.

Also: Tables as Markdown, LaTeX and JSON.
"""

from __future__ import annotations

import json

import pytest

import paper_transcription as transcription
from reproduction.paper.grid import Column, Columns, Grid, Line, Section
from reproduction.paper.values import FILE, RADII, printed, radius
from shared import BESIDE, needed

SOURCE = BESIDE.parent / "paper" / "wang-kong-cvpr-2023.tex"


def test_the_shipped_values_are_those_in_the_papers_source() -> None:
    source = needed(SOURCE, "the paper's source lies beside the project")
    assert json.loads(FILE.read_text()) == transcription.tables(source)


def test_the_comparison_sees_one_wrong_digit(tmp_path) -> None:
    source = needed(SOURCE, "the paper's source lies beside the project").read_text()
    assert source.count("0.5271&2.8374") == 1
    changed = tmp_path / "paper.tex"
    changed.write_text(source.replace("0.5271&2.8374", "0.5272&2.8374"))
    assert json.loads(FILE.read_text()) != transcription.tables(changed)


@pytest.mark.parametrize(
    ("table", "place", "model", "column", "value"),
    [  # read by eye
        ("table2", "cifar10/l2/0.1/saliency", "trades-igr", "adjusted", 0.34),
        ("table2", "cifar10/linf/0.1/ig", "trades-igr", "bound_degrees", 35.00),
        ("table3", "mnist/l2/0.05/ig", "art", "exceeded", 6.00),
        ("table3", "cifar10/l2/0.1/ig", "trades", "attack", 0.0264),
        ("table4", "fashion-mnist/linf/0.05/ig", "ig-norm", "bound", 0.8819),
        ("table4", "mnist/linf/0.05/ig", "at", "kendall", 0.1846),
        ("table5", "cifar10/linf/8/255/ig", "advaat", "gap", 0.1513),
        ("table5", "mnist/l2/0.2/ig", "trades", "gap", 0.0104),
        ("table6", "cifar10/l2/0.1/input_x_gradient", "art", "bound_degrees", 6.06),
        ("table7", "cifar10/l2/0.3/ig", "art", "adjusted", 1.1420),
        ("table8", "mnist/linf/0.01/ig", "at", "attack", 0.0556),
        ("table8", "cifar10/linf/8/255/ig", "trades-igr", "bound_degrees", 10.3668),
        ("table9", "flowers17/l2/0.1/ig", "at", "exceeded", 2.17),
        ("table10", "imagenet/linf/8/255/ig", "ce", "attack_degrees", 3.8227),
    ],
)
def test_single_values(table, place, model, column, value) -> None:
    assert printed(table, place, model)[column] == value


def test_what_the_paper_does_not_print_is_empty() -> None:
    assert printed("table3", "mnist/l2/0.05/ig", "ce") == {}
    assert printed("table3", "mnist/l2/0.3/ig", "at") == {}


def test_radii_are_those_of_the_tables() -> None:
    stored = json.loads(FILE.read_text())
    found: dict[str, dict[str, set[str]]] = {}
    for table in stored.values():
        for place in table:
            data, norm, epsilon = place.rpartition("/")[0].split("/", 2)
            found.setdefault(data, {}).setdefault(norm, set()).add(epsilon)
    assert found == {d: {n: set(r) for n, r in each.items()} for d, each in RADII.items()}
    assert radius("8/255") == 8 / 255


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
