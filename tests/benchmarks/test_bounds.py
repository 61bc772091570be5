from __future__ import annotations

from dataclasses import fields

import pytest

import bounds
from claims import store
from claims.plan import Settings, plan


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(
        tests=3, calibrations=2, batch=2, linear=2, networks=("mlp-at-b5",), parts=tmp_path
    )


@pytest.fixture
def measured(monkeypatch) -> list:
    """Instead of networks, a row per image; the parts that were asked for."""
    asked = []

    def measure(part, settings):
        asked.append(part)
        return [{"network": part.network, "role": part.kind, "sample": i} for i in part.images]

    monkeypatch.setattr(bounds, "measure", measure)
    monkeypatch.setattr(
        bounds, "described", lambda part, settings: {"cell": part.cell, "seed": settings.seed}
    )
    return asked


def test_everything_is_computed_once_and_put_together_in_order(settings, measured) -> None:
    bounds.work(settings)
    parts = [*plan(settings)]
    assert measured == parts
    bounds.work(settings)
    assert len(measured) == len(parts), "what is there is not computed again"
    rows, lacks = bounds.combine(settings)
    assert not lacks
    expected = [(part.kind, i) for part in parts for i in part.images]
    assert [(row["role"], row["sample"]) for row in rows] == expected
    assert {row["settings"] for row in rows} >= {
        '{"cell": "mlp-at-b5_saliency_l2-0.05", "seed": 0}'
    }


def test_a_kill_loses_the_batch_in_flight_only(settings, measured, monkeypatch) -> None:
    parts, measure = [*plan(settings)], bounds.measure

    def killed(part, settings):
        if part == parts[3]:
            raise KeyboardInterrupt
        return measure(part, settings)

    with monkeypatch.context() as patch:
        patch.setattr(bounds, "measure", killed)
        with pytest.raises(KeyboardInterrupt):
            bounds.work(settings)
    kept, lacks = bounds.combine(settings)
    assert len(kept) == sum(len(part.images) for part in parts[:3])
    assert lacks.startswith(f"{len(parts) - 3} of {len(parts)} parts are not measured yet")
    bounds.work(settings)
    assert measured == parts, "nothing twice, nothing left out"


def test_second_passes_are_computed_beside_what_was_there_without(settings, measured) -> None:
    """As in a folder that an older run left: nothing of it is touched or computed again."""
    ordinary = [part for part in plan(settings) if not part.again]
    for part in ordinary:
        bounds.compute(part, settings)
    files = {part.path(settings.parts) for part in ordinary}
    before = {path: path.read_bytes() for path in files}
    missing = len([*plan(settings)]) - len(ordinary)
    assert f", {missing} of them second passes" in bounds.combine(settings)[1]
    measured.clear()
    bounds.work(settings)
    assert len(measured) == missing
    assert all(part.again for part in measured)
    assert {path: path.read_bytes() for path in files} == before
    assert bounds.combine(settings)[1] == ""


def test_other_settings_compute_again_and_are_not_mixed_in(settings, measured) -> None:
    bounds.work(settings)
    other = Settings(**{**vars(settings), "seed": 1})
    assert bounds.combine(other)[0] == []
    bounds.work(other)
    assert len(measured) == 2 * len([*plan(settings)])


def test_what_another_process_is_at_is_left_to_it(settings, measured) -> None:
    first = next(plan(settings))
    with store.claimed(first.path(settings.parts)) as mine:
        assert mine
        assert not bounds.compute(first, settings)
    assert measured == []
    assert bounds.compute(first, settings)


def test_a_worker_without_its_parent_stops(settings, measured) -> None:
    bounds.work(settings, parent=-1)
    assert measured == []


def test_the_command_line_has_every_setting(tmp_path) -> None:
    given = bounds.arguments(["--tests", "7", "--networks", "at", "nat", "--parts", str(tmp_path)])
    assert (given.tests, given.networks, given.parts) == (7, ["at", "nat"], tmp_path)
    defaults = bounds.arguments([])
    assert all(getattr(defaults, each.name) == each.default for each in fields(Settings))


def test_the_stored_report_is_that_of_the_stored_rows() -> None:
    """What is missing from the plan is said before."""
    stored = bounds.report(store.read(bounds.TABLE)) + "\n"
    assert bounds.TEXT.read_text().endswith(stored)
