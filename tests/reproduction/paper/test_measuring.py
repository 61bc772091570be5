"""Blocks in processes of their own: the same rows, and what becomes of one that dies."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from safetensors.torch import save_file

from attribound.auditing.rows import untimed
from attribound.values import from_spec
from auditing import tiny
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


def test_two_processes_give_the_rows_of_one(plan, tmp_path) -> None:
    tables = []
    for jobs in (1, 2):
        runs = Runs(plan, tmp_path / str(jobs))
        runs.complete([CE, JACOBIAN], jobs)
        tables.append((untimed(runs.table(CE)), runs.table(JACOBIAN)))
    for one, other in zip(*tables, strict=True):
        assert one.equals(other)


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
    assert [*made] == [portions[0], portions[2]]


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
