"""Errors of rules and what cheaper ones lose, from rows that are given.

Also: Small measurements against dense float64.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
import torch

import attribound as ab
import paper_made as made
from attribound.auditing import read_settings
from attribound.auditing.rows import SCHEMA, table
from auditing import tiny
from reproduction.paper import records, registry, rules
from reproduction.paper.items import CHEAPER, QUADRATURE, RunSpec
from reproduction.paper.records import MEASUREMENTS, MeasuredModel, measure_record

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
                {"attack": "direct", "deviation": 2.0, "seconds": 2.0 + i},
                {"attack": "cheap", "deviation": 2.0 * ratio, "seconds": 3.0},
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
    other = RunSpec("mnist", "ce", CHEAPER)
    shown = rules.lost_grid(made.MadeRuns({spec: compared(1.0, 0.8), other: compared(0.5, 1.25)}))
    (row,) = [each for each in shown.blocks[0].rows if each.title == "AT"]
    (own,) = row.ours
    assert own["n"] == 2
    for norm in ("l2", "linf"):
        assert own[norm] == pytest.approx(0.9)
        assert own[f"{norm}_less"] == 50
    assert own["time"] == pytest.approx(6 / 5)
    assert shown.notes[1] == (
        "Of 4 samples the one on the map itself went at most 2.0 times as far as the other, and "
        "that one at most 1.25 times as far as it."
    )
    assert len(rules.lost_grid(made.MadeRuns({})).notes) == 1
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


SETTINGS = read_settings(
    {
        "model": "auditing.tiny:build",
        "data": "digits",
        "limit": 3,
        "attributions": "saliency",
        "balls": [ab.L2Ball(0.5), ab.LinfBall(0.02), ab.LinfBall(0.05)],
        "dtype": "float64",
    }
)


@pytest.fixture(scope="module")
def tables():
    return {kind: measure_record(kind, SETTINGS)[1] for kind in MEASUREMENTS}


def hessian(sample: int) -> torch.Tensor:
    network = tiny.build().double()
    x = ab.data.load("digits").read(torch.tensor([sample])).double()
    label = int(network(x).argmax())
    flat = x.flatten()
    return torch.autograd.functional.hessian(
        lambda point: network(point.reshape(x.shape))[0, label], flat
    )


def test_jacobians_are_measured_as_their_definitions_say(tables) -> None:
    table = tables["jacobian"]
    assert table.num_rows == 3
    for row in table.to_pylist():
        dense = hessian(row["sample"])
        squared = dense.T @ dense
        assert row["xi"] == pytest.approx(float(torch.linalg.svdvals(dense)[0]))
        assert row["theorem_2"] == pytest.approx(math.sqrt(squared.abs().sum()))
        assert row["corollary_1"] == pytest.approx(8 * row["xi"])
        assert row["certificate"] <= row["theorem_2"] * (1 + 1e-6)
        for name, matrix in (("j", dense.abs()), ("p", squared.abs())):
            filled = [i for i in range(64) if matrix[i].sum() > 0]
            dominant = [i for i in filled if matrix[i, i] >= matrix[i].sum() - matrix[i, i]]
            largest = [i for i in filled if matrix[i, i] >= matrix[i].max()]
            assert row[f"{name}_dominant"] == pytest.approx(len(dominant) / len(filled))
            assert row[f"{name}_largest"] == pytest.approx(len(largest) / len(filled))
            mass = float(matrix.diagonal().sum() / matrix.sum())
            assert row[f"{name}_mass"] == pytest.approx(mass)


def test_a_diagonal_matrix_is_dominant_and_a_full_one_is_not() -> None:
    def shape(matrix):
        return records._shape(matrix, lambda part, whole: whole[part])

    assert shape(torch.eye(700))["dominant"] == 1  # more than one strip
    assert shape(torch.eye(700))["mass"] == 1
    full = shape(torch.ones(700, 700))
    assert (full["dominant"], full["largest"]) == (0, 1)
    assert full["mass"] == pytest.approx(1 / 700)
    assert shape(torch.zeros(3, 3))["mass"] == 1


def test_remainders_are_what_the_dense_jacobian_leaves_over(tables) -> None:
    """At random corners, which follow from the seed."""
    rows = tables["eta"].to_pylist()
    assert len(rows) == 3 * 8 * 2
    assert max(row["epsilon"] for row in rows) == 0.05
    samples = sorted({row["sample"] for row in rows})
    network = tiny.build().double()
    x = ab.data.load("digits").read(torch.tensor(samples)).double()
    saliency, ball = ab.Saliency(network), ab.LinfBall(0.05)
    delta = ab.attacks.RandomPerturbation(seed=0)(saliency, x, ball).delta
    change = (saliency(x + delta, network(x).argmax(1)) - saliency(x)).flatten(1)
    for i, sample in enumerate(samples):
        (row,) = [
            r for r in rows if (r["sample"], r["epsilon"], r["by"]) == (sample, 0.05, "random")
        ]
        linear = hessian(sample) @ delta[i].flatten()
        assert row["deviation"] == pytest.approx(float(change[i].norm()))
        assert row["eta"] == pytest.approx(float((change[i] - linear).norm()))
        assert row["attribution_norm"] == pytest.approx(float(saliency(x)[i].norm()))


def test_errors_of_rules_are_against_four_hundred_midpoints() -> None:
    rules = (ab.IntegratedGradients(steps=2), ab.IntegratedGradients(steps=30))
    table = measure_record(QUADRATURE, replace(SETTINGS, attributions=rules))[1]
    assert table.num_rows == 6
    network = tiny.build().double()
    by_rule: dict[str, list[float]] = {}
    for row in table.to_pylist():
        x = ab.data.load("digits").read(torch.tensor([row["sample"]])).double()
        label = network(x).argmax(1)
        nodes = [(k + 0.5) / 400 for k in range(400)]
        exact = x * sum(ab.Saliency(network)(t * x, label) for t in nodes) / 400
        (rule,) = [each for each in rules if each.name == row["rule"]]
        error = (rule.of(network)(x, label) - exact).norm() / exact.norm()
        assert row["error"] == pytest.approx(float(error), rel=1e-6)
        by_rule.setdefault(row["rule"], []).append(row["error"])
    coarse, fine = (max(by_rule[rule.name]) for rule in rules)
    assert fine < coarse / 4


def test_attacks_leave_more_over_than_random_corners(tables) -> None:
    rows = tables["eta"].to_pylist()
    sums = {by: sum(r["deviation"] for r in rows if r["by"] == by) for by in ("random", "ascent")}
    assert sums["ascent"] > sums["random"]


def test_it_looks_at_what_an_audit_looks_at() -> None:
    """The same samples of the same network."""
    settings = replace(SETTINGS, skip=2, attacks={}, balls=(ab.L2Ball(0.1),))
    subject, run = MeasuredModel.of(settings), ab.audit(settings)
    assert subject.samples == run.rows()["sample"].to_pylist()
    norms = subject.attribution(subject.x).flatten(1).norm(dim=1)
    assert norms.tolist() == pytest.approx(run.rows()["attribution_norm"].to_pylist())


def test_other_weights_and_other_samples_are_told_apart(monkeypatch) -> None:
    first = MeasuredModel.of(SETTINGS).about
    assert MeasuredModel.of(SETTINGS).about == first
    assert MeasuredModel.of(replace(SETTINGS, skip=3)).about["data"] != first["data"]
    load = records.load_model
    other = tiny.build(seed=1).eval()
    monkeypatch.setattr(records, "load_model", lambda *args: replace(load(*args), model=other))
    assert MeasuredModel.of(SETTINGS).about["model"] != first["model"]
