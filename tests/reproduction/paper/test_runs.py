"""Runs that are found, made and resumed, and those that cannot be made."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import save_file

import attribound as ab
from attribound.auditing import cells
from attribound.auditing.rows import untimed
from attribound.basics import Lock, StorageError
from attribound.values import from_spec
from auditing import tiny
from reproduction.paper import measuring
from reproduction.paper import runs as module
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import UNPLANNED, Runs

DOCUMENT = {
    "block": 2,
    "common": {"seed": 0, "batch": 2, "maps": "none", "claims": ["first_order"]},
    "kinds": {
        "paper": {
            "settings": {
                "protocol": "paper",
                "attributions": ["ig:steps=2"],
                "attacks": {
                    "pgd": {"kind": "repeated", "times": 2, "attack": {"kind": "pgd", "steps": 2}}
                },
            }
        },
        "jacobian": {"settings": {"attributions": ["ig:steps=2"], "attacks": {}}},
    },
    "data": {
        "mnist": {
            "title": "MNIST",
            "name": "digits",
            "samples": {"paper": 4, "jacobian": 1},
            "balls": {"l2": [0.05], "linf": [0.01]},
            "models": {
                "ce": {"model": "auditing.tiny:build"},
                "at": {"model": "zoo:digits/nobody"},
                "art": {"model": "auditing.tiny:build", "weights": "gone.safetensors"},
                "trades": {"model": "auditing.tiny:missing"},
                "advaat": {"model": "auditing.tiny:varied"},
            },
        }
    },
}
PLAN = from_spec(DOCUMENT, Plan)
CE, AT, ART, TRADES, OTHER = (
    RunSpec("mnist", m, "paper") for m in ("ce", "at", "art", "trades", "advaat")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    runs, said = Runs(PLAN, tmp_path_factory.mktemp("stored")), []
    jacobian = RunSpec("mnist", "ce", "jacobian")
    specs = [CE, AT, ART, TRADES, CE, OTHER, jacobian, RunSpec("x", "y", "paper")]
    runs.complete(specs, say=said.append)
    return runs, said


class Killed(BaseException):
    """A process ends like this, as far as its memory goes."""


@pytest.fixture
def counted(monkeypatch):
    """The samples of every audit that is made; ``stop_after`` kills the process then."""

    class Counted(list):
        stop_after = None

    asked, audit = Counted(), ab.audit

    def count(settings, **options):
        if asked.stop_after is not None and len(asked) >= asked.stop_after:
            raise Killed
        asked.append((settings.model, settings.skip, settings.limit))
        return audit(settings, **options)

    monkeypatch.setattr(measuring, "audit", count)
    return asked


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
    assert said.count("mnist/at/paper: not there yet: make zoo") == 1


def test_every_run_has_its_first_block_before_any_has_its_second(made) -> None:
    _, said = made
    begun = [text.partition(" (")[0] for text in said if ": sample" in text]
    assert begun == [
        "mnist/ce/paper: samples 0 to 1",
        "mnist/trades/paper: samples 0 to 1",
        "mnist/advaat/paper: samples 0 to 1",
        "mnist/ce/jacobian: sample 0",
        "mnist/ce/paper: samples 2 to 3",
        "mnist/advaat/paper: samples 2 to 3",
    ]


def test_there_is_one_table_a_kind(made) -> None:
    names = sorted(path.name for path in made[0].folder.iterdir())
    assert names == ["jacobian.parquet", "lock", "paper.parquet"]


def test_nothing_is_run_twice(made, counted) -> None:
    runs, _ = made
    again = Runs(PLAN, runs.folder)
    before = (runs.folder / "paper.parquet").read_bytes()
    again.complete([CE, OTHER, RunSpec("mnist", "ce", "jacobian")])
    assert counted == []
    assert again.table(CE).num_rows == 8
    assert (runs.folder / "paper.parquet").read_bytes() == before


def test_killed_it_goes_on_and_loses_the_block_in_flight_only(made, tmp_path, counted) -> None:
    counted.stop_after = 3
    with pytest.raises(Killed):
        Runs(PLAN, tmp_path).complete([CE, OTHER])
    left = Runs(PLAN, tmp_path)
    assert (left.table(CE).num_rows, left.table(OTHER).num_rows) == (4 * 2, 2 * 2)
    counted.stop_after = None
    left.complete([CE, OTHER])
    assert counted[3:] == [("auditing.tiny:varied", 2, 2)]
    for spec in (CE, OTHER):
        assert untimed(left.table(spec)).equals(untimed(made[0].table(spec)))


def test_maps_without_their_rows_are_none(tmp_path, monkeypatch) -> None:
    """Killed between the two: the block is made again, and its maps are there once."""
    document = copy.deepcopy(DOCUMENT)
    document["common"]["maps"] = "all"
    plan = from_spec(document, Plan)
    append = module.StoredTable.append

    def killed(self, about, rows):
        if "maps" not in self.path.name:
            raise Killed
        return append(self, about, rows)

    with monkeypatch.context() as patch:
        patch.setattr(module.StoredTable, "append", killed)
        with pytest.raises(Killed):
            Runs(plan, tmp_path).complete([CE])
    left = Runs(plan, tmp_path)
    assert left.maps(CE) is None
    left.complete([CE])
    assert left.maps(CE).num_rows == 2 * 2


def test_more_samples_are_added_to_those_that_are_there(made, tmp_path, counted) -> None:
    few = Runs(PLAN, tmp_path, samples=2)
    few.complete([CE])
    assert few.table(CE).num_rows == 2 * 2
    more = Runs(PLAN, tmp_path, samples=3)
    more.complete([CE])
    assert [each[1:] for each in counted] == [(0, 2), (2, 1)]
    assert more.table(CE).num_rows == 3 * 2
    # Part of a block is not mixed with the whole of it.
    assert Runs(PLAN, tmp_path).table(CE).num_rows == 2 * 2
    assert Runs(PLAN, made[0].folder, samples=3).table(CE).num_rows == 2 * 2


def test_an_added_block_cannot_bring_a_sample_twice(made) -> None:
    rows = made[0].table(CE)
    assert (
        rows.group_by("sample").aggregate([("sample", "count")])["sample_count"].to_pylist()
        == [2] * 4
    )


def test_maps_are_those_of_the_first_block(tmp_path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["common"]["maps"] = "all"
    runs = Runs(from_spec(document, Plan), tmp_path)
    assert runs.maps(CE) is None
    runs.complete([CE])
    kept = runs.maps(CE)["sample"].unique().to_pylist()
    assert len(kept) == 2
    assert {*kept} < {*runs.table(CE)["sample"].to_pylist()}
    assert runs.maps(RunSpec("x", "y", "paper")) is None


def test_what_has_other_settings_is_not_taken_for_this_and_stays(tmp_path) -> None:
    Runs(PLAN, tmp_path).complete([CE])
    changed = copy.deepcopy(DOCUMENT)
    changed["common"]["seed"] = 1
    runs = Runs(from_spec(changed, Plan), tmp_path)
    assert runs.table(CE) is None
    assert runs.why(CE) == "not run yet"
    runs.complete([CE])
    before, now = Runs(PLAN, tmp_path).table(CE), runs.table(CE)
    assert before.num_rows == now.num_rows == 8
    assert before["sample"].to_pylist() != now["sample"].to_pylist()


def test_other_weights_under_the_same_name_are_another_model(tmp_path) -> None:
    first = tmp_path / "weights.safetensors"
    save(first, seed=0)
    document = copy.deepcopy(DOCUMENT)
    document["data"]["mnist"]["models"]["ce"] = {
        "model": "auditing.tiny:build",
        "weights": str(first),
    }
    plan = from_spec(document, Plan)
    Runs(plan, tmp_path / "stored", samples=2).complete([CE])
    assert Runs(plan, tmp_path / "stored", samples=2).table(CE) is not None
    save(first, seed=1)
    assert Runs(plan, tmp_path / "stored", samples=2).table(CE) is None
    # Where they are not, what was stored is all there is to go by.
    first.unlink()
    assert Runs(plan, tmp_path / "stored", samples=2).table(CE) is not None


def save(path, seed: int) -> None:
    save_file(tiny.build(seed).state_dict(), path)


def test_several_kinds_are_one_table(tmp_path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["kinds"]["bounds"] = {
        "part": "paper",
        "norms": ["l2"],
        "settings": {"attributions": ["ig:steps=2"], "attacks": {}, "claims": ["adjusted"]},
    }
    document["data"]["mnist"]["samples"] = {"paper": 2, "bounds": 3}
    runs = Runs(from_spec(document, Plan), tmp_path)
    runs.complete([CE])
    found = {cell.ball: cell for cell in cells(runs.table(CE))}
    assert {name: len(cell) for name, cell in found.items()} == {"l2": 3, "linf": 2}
    bounds = [np.isfinite(found["l2"].bound(claim)).sum() for claim in ("first_order", "adjusted")]
    assert bounds == [2, 3]
    assert np.isfinite(found["l2"].attack("pgd")).sum() == 2
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["bounds.parquet", "lock", "paper.parquet"]


def test_a_full_disk_ends_it(tmp_path, monkeypatch) -> None:
    def full(*_, **__):
        raise StorageError("disk", expected="room", got="none", remedy="make room")

    monkeypatch.setattr(measuring, "audit", full)
    with pytest.raises(StorageError, match="make room"):
        Runs(PLAN, tmp_path).complete([CE])


def test_one_process_writes(tmp_path) -> None:
    lock = Lock(tmp_path)
    with pytest.raises(ab.InputError, match="expected one process that writes it"):
        Runs(PLAN, tmp_path).complete([CE])
    lock.release()


def test_the_rows_are_those_of_an_audit(made) -> None:
    alone = ab.audit(PLAN.settings(CE)).rows()
    same = made[0].table(CE)
    for one, other in zip(cells(alone), cells(same), strict=True):
        assert (one.ball, one.samples) == (other.ball, other.samples)
        # Batches have other samples.
        np.testing.assert_allclose(one.bound("first_order"), other.bound("first_order"), rtol=1e-4)
        np.testing.assert_allclose(one.attack("pgd"), other.attack("pgd"), rtol=1e-4)


def test_a_block_of_its_own_size(made, tmp_path) -> None:
    plan = replace(PLAN, data={"mnist": replace(PLAN.data["mnist"], block=1)})
    runs, said = Runs(plan, tmp_path), []
    runs.complete([CE], say=said.append)
    assert said == [f"mnist/ce/paper: sample {i} ({i + 1} of 4)" for i in range(4)]


def test_a_setting_that_audits_learn_later_is_unset_in_what_is_stored() -> None:
    document = {"weights": "/there/a.safetensors", "claims": [{"kind": "first_order"}]}
    later = {
        "weights": "/here/a.safetensors",
        "claims": [{"kind": "first_order", "dense": None}],
        "new": None,
    }
    assert module._settings(document) == module._settings(later)
    assert module._settings(document) != module._settings({**later, "new": 1})
    assert module._settings(document) != module._settings({**later, "weights": None})
