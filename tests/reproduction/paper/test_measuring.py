"""Blocks in processes of their own: the same rows, and what becomes of one that dies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from safetensors.torch import save_file

from attribound.auditing.engines import local
from attribound.auditing.rows import untimed
from attribound.values import from_spec
from auditing import tiny
from reproduction.paper import measuring
from reproduction.paper.command import STORED
from reproduction.paper.items import RunSpec
from reproduction.paper.measuring import CPU, in_processes, measured
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs
from reproduction.paper.store import StoredTable

DOCUMENT = {
    "common": {"seed": 0, "batch": 1, "maps": "none", "claims": ["first_order"]},
    "kinds": {
        "paper": {"settings": {"attributions": ["ig:steps=2"], "attacks": {}}},
        "jacobian": {"settings": {"attributions": ["ig:steps=2"], "attacks": {}}},
    },
    "data": {
        "mnist": {
            "title": "MNIST",
            "name": "digits",
            "samples": {"paper": 3, "jacobian": 1},
            "balls": {"l2": [0.05]},
            "models": {
                "ce": {"model": "auditing.tiny:build"},
                "at": {"model": "auditing.tiny:deadly"},
            },
        }
    },
}
CE, AT, JACOBIAN = (
    RunSpec("mnist", *which) for which in (("ce", "paper"), ("at", "paper"), ("ce", "jacobian"))
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return from_spec(DOCUMENT, Plan)


def test_two_processes_give_the_rows_of_one(plan, tmp_path, monkeypatch) -> None:
    tables, started = [], []

    class Counted(local._Worker):
        def __init__(self, *settings) -> None:
            super().__init__(*settings)
            started.append(self.process.pid)

    def elsewhere(portion) -> None:
        raise AssertionError(f"{portion.name} was measured here")

    monkeypatch.setattr(local, "_Worker", Counted)
    for jobs in (1, 2):
        runs = Runs(plan, tmp_path / str(jobs))
        with monkeypatch.context() as patch:
            if jobs > 1:
                patch.setattr(measuring, "measured", elsewhere)
            runs.complete([CE, JACOBIAN], jobs)
        assert len(set(started)) == (jobs if jobs > 1 else 0)
        tables.append((untimed(runs.table(CE)), runs.table(JACOBIAN)))
    for one, other in zip(*tables, strict=True):
        assert one.equals(other)


@pytest.mark.parametrize("jobs", [1, 2])
def test_blocks_tell_their_steps(plan, jobs) -> None:
    """Of three samples in a batch of their own each: numbered through the block."""
    portions, heard = plan.portions(CE), []
    assert [each.settings.limit for each in portions] == [1, 1, 1]
    whole = replace(portions[0], settings=replace(portions[0].settings, limit=3))
    made = [*in_processes([portions[1], whole], jobs, lambda _: True, heard.append)]
    assert sorted(place for place, _ in made) == [0, 1]
    own = [step for step in heard if step.batch == 1]
    each = own[0].steps // 3
    assert each >= 2
    assert [step.step for step in own] == [*range(1, 3 * each + 1)]
    assert {step.steps for step in own} == {3 * each}
    assert "ig:steps=2" in own[-1].doing
    assert len([step for step in heard if step.batch == 0]) == each


def test_a_block_that_kills_its_process_is_left_out_with_the_reason(plan, tmp_path) -> None:
    runs, said = Runs(plan, tmp_path), []
    runs.complete([AT, CE], 2, said.append)
    assert runs.table(AT) is None
    assert "died 3 times, at last by SIGKILL" in runs.why(AT)
    assert runs.table(CE).num_rows == 3
    assert sum("mnist/at/paper: the process" in text for text in said) == 1


def test_what_is_not_wanted_when_its_turn_comes_is_not_measured(plan) -> None:
    portions = plan.portions(CE)
    asked = []

    def begin(place: int) -> bool:
        asked.append(place)
        return place != 1

    made = dict(in_processes(portions, 1, begin))
    assert asked == [0, 1, 2]
    assert [*made] == [0, 2]


def test_weights_are_stored_by_name(plan, tmp_path) -> None:
    """Machines have them in other folders, which are nobody's business."""
    weights = tmp_path / "weights.safetensors"
    save_file(tiny.build().state_dict(), weights)
    (portion, *_) = plan.portions(CE)
    settings = replace(portion.settings, weights=str(weights))
    found = measured(replace(portion, settings=settings))
    assert found.about["settings"]["weights"] == weights.name
    assert str(tmp_path) not in json.dumps(found.about)
    assert found.about[CPU] > 0


@pytest.mark.parametrize("table", sorted(STORED.glob("*.parquet")), ids=lambda path: path.stem)
def test_what_is_shipped_names_no_folder(table) -> None:
    for about in StoredTable(table).blocks.values():
        assert "/" not in (about["settings"]["weights"] or "")
