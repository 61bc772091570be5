"""The paper's tables: its layout and values, with our numbers where there are runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

import paper_made as made
from reproduction.paper.items import RunSpec
from reproduction.paper.lookup import Place, numbers
from reproduction.paper.plan import Plan
from reproduction.paper.runs import UNPLANNED
from reproduction.paper.tables import ITEMS, grid
from reproduction.paper.values import FILE

SPECS = [
    *(RunSpec("mnist", "at", kind) for kind in ("paper", "strong")),
    *(RunSpec("cifar10", "trades-igr", k) for k in ("paper", "strong", "methods")),
]
STORED = json.loads(FILE.read_text())
NUMBERED = sorted(STORED, key=lambda name: int(name.removeprefix("table")))


@pytest.fixture(scope="module")
def runs():
    return made.MadeRuns({spec: made.audit(spec) for spec in SPECS})


def shown(table) -> Counter[float]:
    """The paper's values of a table as a reader sees them, in parentheses."""
    found: Counter[float] = Counter()
    for line in table.markdown().splitlines():
        if line.startswith("|"):
            for cell in re.findall(r"\(([\d.]+)(?: \[([\d.]+)%\])?\)", line):
                found.update(float(text) for text in cell if text)
    return found


def printed(name: str) -> Counter[float]:
    models = (model for place in STORED[name].values() for model in place.values())
    return Counter(value for columns in models for value in columns.values())


@pytest.mark.parametrize("name", NUMBERED)
def test_every_value_of_the_paper_is_shown_once_and_no_other(runs, name) -> None:
    assert shown(grid(name, runs, "paper")) == printed(name)


def test_a_lost_row_would_be_seen(runs) -> None:
    whole = grid("table3", runs, "paper")
    first = whole.blocks[0]
    cut = replace(whole, blocks=(replace(first, rows=first.rows[:-1]), *whole.blocks[1:]))
    assert shown(cut) != printed("table3")


def test_all_tables_of_numbers_can_be_made() -> None:
    assert [*ITEMS] == NUMBERED


@pytest.mark.parametrize("protocol", ["paper", "strong"])
def test_our_numbers_stand_in_the_row_of_their_model(runs, protocol) -> None:
    own, _ = numbers(runs, Place("mnist", "l2", "0.05"), "at", protocol)
    block = grid("table3", runs, protocol).blocks[0]
    (row,) = [row for row in block.rows if row.title == "AT"]
    assert row.ours == (own,)
    assert not row.reason
    others = [each for each in block.rows if each.title != "AT"]
    assert {each.reason for each in others} == {"not run yet"}
    assert not any(any(each.ours) for each in others)


def test_the_other_radii_are_side_by_side(runs) -> None:
    (row,) = [r for r in grid("table7", runs, "paper").blocks[0].rows if r.title == "AT"]
    expected = [numbers(runs, Place("mnist", "l2", e), "at", "paper")[0] for e in ("0.1", "0.2")]
    assert list(row.ours) == expected
    assert expected[0] != expected[1]


def test_table_2_takes_every_trial_and_table_3_those_that_kept_the_label(runs) -> None:
    """The same run of IG is behind both."""
    (row, _) = grid("table2", runs, "paper").blocks[0].rows
    (same,) = [r for r in grid("table3", runs, "paper").blocks[2].rows if r.title == "TRADES+IGR"]
    assert row.ours[2]["bound"] == same.ours[0]["bound"]
    assert row.ours[2]["attack"] != same.ours[0]["attack"]
    assert row.title == "l2"


def test_gaps_are_to_the_adjusted_bound_in_l2_and_to_theorem_2_in_the_cube(runs) -> None:
    for block, norm, radii, key in zip(
        grid("table5", runs, "paper").blocks,
        ("l2", "linf"),
        (("0.05", "0.1", "0.2"), ("0.01", "0.03", "0.05")),
        ("gap_adjusted", "gap"),
        strict=True,
    ):
        (row,) = [each for each in block.rows if each.title == "AT"]
        for epsilon in radii:
            own, _ = numbers(runs, Place("mnist", norm, epsilon), "at", "paper")
            assert row.ours[0][epsilon] == own[key]
        assert "Fashion-MNIST" in row.reason


def test_models_that_nobody_trains_here_keep_the_papers_values(runs) -> None:
    data = runs.plan.data["cifar10"]
    models = {name: model for name, model in data.models.items() if name != "art"}
    fewer = replace(runs.plan, data={**runs.plan.data, "cifar10": replace(data, models=models)})
    block = grid("table4", made.MadeRuns(runs.given, fewer), "paper").blocks[2]
    reasons = {row.title: row.reason for row in block.rows}
    assert reasons["ART"] == UNPLANNED
    assert reasons["CE-FULL"] == "not run yet"
    assert "CE" in reasons


def test_notes_say_what_was_run(runs) -> None:
    note = grid("table3", runs, "paper").notes[0]
    assert "20 repeats of PGD-20 (l2)" in note
    assert "20 repeats of 200 steps of IFIA (l∞)" in note
    assert " 1 repeat of 200 steps of IFIA (l∞)" in note
    rules = grid("table3", runs, "paper").notes[2]
    assert "MNIST ig:steps=64,quadrature=midpoint, ig:steps=20,quadrature=midpoint where" in rules


def test_both_protocols_are_written_in_three_formats(runs, tmp_path) -> None:
    paths = ITEMS["table9"].make(runs, tmp_path)
    stems = [f"table9{end}" for end in ("", "-strong")]
    assert [p.name for p in paths] == [f"{s}.{end}" for s in stems for end in ("md", "tex", "json")]
    assert all(path.stat().st_size for path in paths)


def test_no_network_of_the_papers_tables_is_missing_from_the_plan(runs) -> None:
    for name in NUMBERED:
        for block in grid(name, runs, "paper").blocks:
            assert UNPLANNED not in {row.reason for row in block.rows}


def test_runs_of_all_planned_models_are_asked_for() -> None:
    plan = Plan.read()
    for data, item in (("mnist", "table3"), ("cifar10", "table6"), ("flowers17", "table9")):
        kinds = ("paper", "strong", "methods") if item == "table6" else ("paper", "strong")
        wanted = {
            s for s in plan.of_data(data, kinds) if item != "table6" or s.model != "trades-igr"
        }
        assert wanted <= {*ITEMS[item].needs}
