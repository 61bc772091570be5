"""What was measured of what is planned, counted.

Also: What the bound costs: counted again from rows that are given.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import paper_made as made
from attribound.auditing import cells
from attribound.auditing.rows import SCHEMA, table
from attribound.values import from_spec
from reproduction.paper import cost, effort, registry
from reproduction.paper.items import COST, RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import CPU, Runs
from shared import shared

DOCUMENT = {
    "block": 1,
    "common": {"batch": 1, "maps": "none", "claims": ["first_order"]},
    "kinds": {
        "paper": {
            "attacks_only": True,
            "norms": ["l2"],
            "settings": {
                "attacks": {
                    "pgd": {"kind": "repeated", "times": 3, "attack": {"kind": "pgd", "steps": 1}}
                },
            },
        },
        "cost": {"norms": ["l2"], "first": True, "settings": {"attacks": {}}},
    },
    "data": {
        "mnist": {
            "title": "MNIST",
            "name": "digits",
            "attribution": "ig:steps=2",
            "samples": {"paper": 3, "cost": 1},
            "balls": {"l2": [0.05, 0.1]},
            "models": {"ce": {"model": "auditing.tiny:build"}, "at": {"model": "zoo:digits/no"}},
        }
    },
}
SPEC = RunSpec("mnist", "ce", "paper")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    """Two of three samples of one model."""
    folder = tmp_path_factory.mktemp("stored")
    plan = from_spec(DOCUMENT, Plan)
    Runs(plan, folder, samples=2).complete([SPEC])
    return Runs(plan, folder)


def test_samples_attacks_and_hours_are_counted(runs) -> None:
    found = effort.efforts(runs, "mnist")
    own = found["paper"]
    assert (own.there, own.planned) == (2, 6)  # two models
    assert own.attacks == 2 * 2 * 3  # samples, radii, repeats
    assert own.seconds > 0
    stored = runs._of("paper").blocks
    assert own.seconds == pytest.approx(sum(each[CPU] for each in stored.values()))
    assert own.left == pytest.approx(own.seconds * 4 / 2)  # four samples at the rate of two
    assert (found["cost"].there, found["cost"].attacks) == (0, 0)
    assert found["cost"].left is None  # no sample says what one takes


def test_a_table_says_what_is_missing(runs, tmp_path) -> None:
    shown = effort.grid(runs)
    last = shown.blocks[-1].rows[0].ours[0]
    assert (last["there"], last["planned"]) == (2, 8)
    assert last["share"] == 25
    assert last["left"] == pytest.approx(2 * last["hours"])
    assert [path.name for path in effort.make(runs, tmp_path)] == [
        f"effort.{end}" for end in ("md", "tex", "json")
    ]


def test_bounds_that_count_for_nothing_are_not_in_the_tables(runs) -> None:
    assert {len(row["bounds"]) for row in runs.table(SPEC).to_pylist()} == {0}
    (block, *_) = runs.blocks(SPEC)
    assert {len(row["bounds"]) for row in block.rows.to_pylist()} == {1}


def test_nothing_to_count() -> None:
    assert effort.attacks_in(None) == 0
    assert effort.Effort().numbers["share"] is None
    assert (effort.Effort() + effort.Effort()).numbers["left"] is None


SPECS = made.PLAN.of_data("mnist", (COST,))


def rows(spec: RunSpec, products: list[int], features: int = 784, failed: int = 0) -> pa.Table:
    settings = made.PLAN.settings(spec)
    known = {
        "batch": 0,
        "label": 1,
        "attribution": settings.attributions[0].name,
        "ball": "l2",
        "epsilon": settings.balls[0].epsilon,
        "features": features,
        "attacks": [],
        "bounds": [],
    }
    xi = {"claim": "first_order", "xi_lower": 2.0, "xi_upper": 2.02}
    good = [
        {**known, "sample": i, "bounds": [{**xi, "products": each}]}
        for i, each in enumerate(products)
    ]
    bad = [{**known, "sample": 100 + i, "error": "boom"} for i in range(failed)]
    return table([*good, *bad], SCHEMA)


def test_all_samples_of_all_models_count_and_failures_are_told() -> None:
    found = cost.numbers([rows(SPECS[0], [10, 20]), rows(SPECS[1], [36], failed=2)])
    assert found == {
        "n": 3,
        "errors": 2,
        "models": 2,
        "features": 784,
        "products": 22,
        "most": 36,
        "share": pytest.approx(100 * 22 / 784),
        "gap": pytest.approx(1.01),
    }


def test_runs_of_smooth_copies_are_counted_with_the_others() -> None:
    smooth = rows(RunSpec("cifar10", "ce-full", COST), [30], features=3072)
    plain = rows(RunSpec("cifar10", "at", COST), [20], features=3072)
    assert cost.numbers([plain, smooth])["products"] == 25


def test_nothing_but_failures_is_no_cost() -> None:
    assert cost.numbers([]) == {}
    assert cost.numbers([rows(SPECS[0], [], failed=2)]) == {"n": 0, "errors": 2}


def test_every_data_set_of_the_plan_has_a_row_with_its_numbers_or_the_reason() -> None:
    runs = made.MadeRuns({SPECS[0]: rows(SPECS[0], [10, 20])})
    shown = {row.title: row for row in cost.grid(runs).blocks[0].rows}
    assert list(shown) == [data.title for data in made.PLAN.data.values()]
    assert shown["MNIST"].ours[0]["products"] == 15
    assert not shown["MNIST"].reason
    assert shown["Fashion-MNIST"].reason == "not run yet"


def test_its_runs_have_no_attack_and_one_round_ball() -> None:
    for data in made.PLAN.data:
        for spec in made.PLAN.of_data(data, (COST,)):
            settings = made.PLAN.settings(spec)
            assert settings.attacks == {}
            assert [ball.name for ball in settings.balls] == ["l2"]


def test_the_command_makes_every_run_that_the_table_shows() -> None:
    planned = {spec for data in made.PLAN.data for spec in made.PLAN.of_data(data, (COST,))}
    assert planned == {spec for spec in cost.ITEM.needs if made.PLAN.has(spec)}
    assert registry.ITEMS["cost"] is cost.ITEM


def test_large_images_are_measured_and_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTRIBOUND_DATA", str(shared("imagenet").parent))
    runs = Runs(made.PLAN, tmp_path / "stored", samples=1)
    spec = RunSpec("imagenet-flowers", "at", COST)
    settings = made.PLAN.settings(spec)
    assert (settings.data, settings.model) == ("imagenet", "zoo:flowers17/at-resnet18")
    runs.complete([spec])
    measured = runs.table(spec)
    assert measured is not None, runs.why(spec)
    assert measured["features"].to_pylist() == [3 * 224 * 224]
    (cell,) = cells(measured)
    assert 2 < cell.bound("first_order", "products")[0] < 100
    names = [path.name for path in cost.make(runs, tmp_path / "out")]
    assert names == ["cost.md", "cost.tex", "cost.json"]
    assert "150528" in (tmp_path / "out" / "cost.md").read_text()
    assert np.isfinite(cell.bound("first_order")).all()
