"""What was measured of what is planned, counted."""

from __future__ import annotations

import pytest

from attribound.values import from_spec
from reproduction.paper import effort
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import CPU, Runs

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
