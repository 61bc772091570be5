"""Errors of rules and what cheaper ones lose, from rows that are given."""

from __future__ import annotations

import pyarrow as pa
import pytest

import paper_made as made
from attribound.auditing.rows import SCHEMA, table
from reproduction.paper import registry, rules
from reproduction.paper.items import CHEAPER, QUADRATURE, RunSpec
from reproduction.paper.records import MEASUREMENTS

SPEC = RunSpec("mnist", "at", QUADRATURE)
NAMES = tuple(each.name for each in made.PLAN.settings(SPEC).attributions)


def errors(*values: float) -> pa.Table:
    """Of the first rule as given, of all others half."""
    rows = [
        {"sample": i, "rule": name, "error": value if name == NAMES[0] else value / 2}
        for i, value in enumerate(values)
        for name in NAMES
    ]
    return pa.Table.from_pylist(rows, schema=MEASUREMENTS[QUADRATURE].schema)


def compared(*ratios: float) -> pa.Table:
    """Attacks of which the cheaper finds these shares of the direct."""
    known = {"batch": 0, "label": 1, "attribution": "ig", "features": 4, "bounds": []}
    rows = [
        {
            **known,
            "sample": i,
            "ball": ball,
            "epsilon": 0.1,
            "attacks": [
                {"attack": "direct", "deviation": 2.0},
                {"attack": "cheap", "deviation": 2.0 * ratio},
            ],
        }
        for i, ratio in enumerate(ratios)
        for ball in ("l2", "linf")
    ]
    return table(rows, SCHEMA)


def test_medians_and_the_largest_are_shown_in_per_cent() -> None:
    found = rules.rule_numbers(errors(0.01, 0.02, 0.06), NAMES)
    assert found["n"] == 3
    assert (found["rule0"], found["most0"]) == (pytest.approx(2), pytest.approx(6))
    assert (found["rule1"], found["most1"]) == (pytest.approx(1), pytest.approx(3))


def test_every_network_has_its_row_and_the_rule_of_the_tables_comes_first() -> None:
    shown = rules.rules_grid(made.MadeRuns({SPEC: errors(0.01, 0.02)}))
    block = shown.blocks[0]
    assert block.groups[0].columns[0].text == made.PLAN.data["mnist"].attribution
    reasons = {row.title: row.reason for row in block.rows}
    assert reasons["AT"] == ""
    assert reasons["CE"] == "not run yet"
    assert [each.title for each in shown.blocks] == [
        data.title for name, data in made.PLAN.data.items() if name != "imagenet-flowers"
    ]


def test_what_a_cheaper_rule_loses_is_a_ratio() -> None:
    spec = RunSpec("mnist", "at", CHEAPER)
    shown = rules.lost_grid(made.MadeRuns({spec: compared(1.0, 0.8)}))
    (row,) = [each for each in shown.blocks[0].rows if each.title == "AT"]
    (own,) = row.ours
    assert own["n"] == 2
    for norm in ("l2", "linf"):
        assert own[norm] == pytest.approx(0.9)
        assert own[f"{norm}_less"] == 50
    assert "ig:steps=20,quadrature=midpoint for ig:steps=64" in shown.blocks[0].title


def test_they_are_written_and_their_runs_asked_for(tmp_path) -> None:
    runs = made.MadeRuns({SPEC: errors(0.01)})
    for name in ("rules", CHEAPER):
        item = registry.ITEMS[name]
        assert [path.name for path in item.make(runs, tmp_path)] == [
            f"{name}.{end}" for end in ("md", "tex", "json")
        ]
        part = QUADRATURE if name == "rules" else CHEAPER
        planned = {s for data in made.PLAN.data for s in made.PLAN.of_data(data, (part,))}
        assert planned == {s for s in item.needs if made.PLAN.has(s)}
