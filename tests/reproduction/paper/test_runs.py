"""Runs that are found, made and resumed, and those that cannot be made."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from attribound.auditing.audit import audit
from attribound.auditing.strict import parse
from attribound.basics.whole_files import StorageError
from reproduction.paper import runs as module
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import UNPLANNED, Runs

DOCUMENT = {
    "block": 2,
    "common": {"seed": 0, "batch": 2, "maps": "none", "claims": ["first_order"]},
    "kinds": {
        "paper": {
            "protocol": "paper",
            "attributions": ["ig:steps=2"],
            "attacks": {"pgd": {"kind": "pgd", "steps": 2, "repeats": 2}},
        },
        "jacobian": {"attributions": ["ig:steps=2"]},
    },
    "data": {
        "mnist": {
            "title": "MNIST",
            "name": "digits",
            "samples": {"paper": 4, "jacobian": 1},
            "balls": {"l2": [0.05], "linf": [0.01]},
            "models": {
                "ce": {"model": "evaluation.tiny:build"},
                "at": {"model": "zoo:digits/nobody"},
                "art": {"model": "evaluation.tiny:build", "weights": "gone.safetensors"},
                "trades": {"model": "evaluation.tiny:missing"},
            },
        }
    },
}
PLAN = parse(Plan, DOCUMENT, "plan")
CE, AT, ART, TRADES = (RunSpec("mnist", m, "paper") for m in ("ce", "at", "art", "trades"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    runs, said = Runs(PLAN, tmp_path_factory.mktemp("runs")), []
    jacobian = RunSpec("mnist", "ce", "jacobian")
    runs.complete([CE, AT, ART, TRADES, CE, jacobian, RunSpec("x", "y", "paper")], say=said.append)
    return runs, said


def test_what_can_be_made_is_made_and_the_rest_has_its_reason(made) -> None:
    runs, said = made
    assert runs.table(CE).num_rows == 4 * 2
    assert runs.table(RunSpec("mnist", "ce", "jacobian")).num_rows == 1
    assert [runs.table(spec) for spec in (AT, ART, TRADES)] == [None] * 3
    assert runs.why(AT) == "not there yet: make zoo"
    assert runs.why(ART) == "weights are not there: gone.safetensors"
    assert "missing" in runs.why(TRADES)
    assert runs.why(RunSpec("x", "y", "paper")) == UNPLANNED
    assert runs.why(RunSpec("mnist", "nobody", "paper")) == UNPLANNED
    assert runs.why(RunSpec("mnist", "at", "methods")) == "not in the plan"
    assert said[:2] == ["mnist/ce/paper: 2 samples"] * 2
    assert "mnist/at/paper: not there yet: make zoo" in said


def test_nothing_is_run_twice(made, monkeypatch) -> None:
    runs, _ = made
    monkeypatch.setattr(module, "audit", lambda *_, **__: pytest.fail("run again"))
    again = Runs(PLAN, runs.folder)
    again.complete([CE])
    assert again.table(CE).num_rows == 8


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch) -> None:
    class Killed(BaseException):
        pass

    class Once:
        """An engine that dies after its first batch."""

        def run(self, work, numbers):
            yield numbers[0], work.measure(work.batch(numbers[0]))
            raise Killed

    plan = replace(PLAN, block=4)
    runs = Runs(plan, tmp_path)
    with pytest.raises(Killed):
        runs.complete([CE], engine=Once())
    half = Runs(plan, tmp_path)
    assert half.table(CE).num_rows == 2 * 2
    half.complete([CE])
    assert half.table(CE).num_rows == 4 * 2


def test_more_samples_are_added_to_those_that_are_there(made, tmp_path, monkeypatch) -> None:
    few = Runs(PLAN, tmp_path, samples=2)
    few.complete([CE])
    (block,) = few.blocks(CE)
    assert few.table(CE).num_rows == 2 * 2
    made_again = []

    def counted(settings, **options):
        made_again.append((settings.skip, settings.limit))
        return audit(settings, **options)

    monkeypatch.setattr(module, "audit", counted)
    more = Runs(PLAN, tmp_path, samples=3)
    more.complete([CE])
    assert made_again == [(2, 1)]
    assert [each.path.name for each in more.blocks(CE)] == [block.path.name, "paper-2-3"]
    # Other runs of part of a block are not mixed with those of the whole.
    assert Runs(PLAN, tmp_path).table(CE).num_rows == 2 * 2
    assert Runs(PLAN, made[0].folder, samples=3).table(CE).num_rows == 2 * 2


def test_an_added_block_cannot_bring_a_sample_twice(made) -> None:
    rows = made[0].table(CE)
    assert (
        rows.group_by("sample").aggregate([("sample", "count")])["sample_count"].to_pylist()
        == [2] * 4
    )


def test_maps_are_those_of_the_first_block(tmp_path) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["common"]["maps"] = "all"
    runs = Runs(parse(Plan, document, "plan"), tmp_path)
    assert runs.maps(CE) is None
    runs.complete([CE])
    kept = runs.maps(CE)["sample"].unique().to_pylist()
    assert len(kept) == 2
    assert {*kept} < {*runs.table(CE)["sample"].to_pylist()}
    assert runs.maps(RunSpec("x", "y", "paper")) is None


def test_a_run_with_other_settings_is_not_taken_for_this_one(made) -> None:
    changed = json.loads(json.dumps(DOCUMENT))
    changed["common"]["seed"] = 1
    runs = Runs(parse(Plan, changed, "plan"), made[0].folder)
    assert runs.table(CE) is None
    assert "has other settings or weights: delete it" in runs.why(CE)
    runs.complete([CE])
    assert "seed was 0, is 1" in runs.why(CE)


def test_a_full_disk_ends_it(tmp_path, monkeypatch) -> None:
    def full(*_, **__):
        raise StorageError("disk", expected="room", got="none", remedy="make room")

    monkeypatch.setattr(module, "audit", full)
    with pytest.raises(StorageError, match="make room"):
        Runs(PLAN, tmp_path).complete([CE])


def test_the_rows_are_those_of_an_audit(made) -> None:
    alone = audit(PLAN.settings(CE)).table()
    same = made[0].table(CE)
    names = ["sample", "norm", "first_order", "attack_pgd_mean"]
    order = [("sample", "ascending"), ("norm", "ascending")]
    one, other = (table.sort_by(order).select(names) for table in (alone, same))
    assert one.drop(names[2:]).equals(other.drop(names[2:]))
    for name in names[2:]:  # batches have other samples
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4)
