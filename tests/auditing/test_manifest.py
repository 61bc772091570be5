"""Manifests: what is the same run, and what is told of the differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attribound.auditing.manifest import RUN, Manifest
from attribound.basics.errors import InputError
from auditing.fakes import manifest


def test_batches_cover_the_samples() -> None:
    for samples, batch in ((10, 4), (8, 4), (3, 4), (1, 1)):
        own = manifest(samples, batch)
        assert sum(own.size(number) for number in range(own.batches)) == samples
        assert all(0 < own.size(number) <= batch for number in range(own.batches))


def test_it_comes_back_as_it_was_written(tmp_path: Path) -> None:
    own = manifest(inputs={"my.balls:Frozen": "sha256:1"})
    own.write(tmp_path)
    assert Manifest.read(tmp_path) == own
    assert json.loads((tmp_path / RUN).read_text())["format_version"] == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"created": "later"},
        {"versions": {**manifest().versions, "python": "9"}},
        {"model": {**manifest().model, "name": "renamed"}},
        {"data": {**manifest().data, "classes": ["x", "y"]}},
    ],
)
def test_what_does_not_decide_the_rows_makes_no_other_run(changes: dict[str, Any]) -> None:
    assert manifest(**changes).identity == manifest().identity
    assert manifest().differences(manifest(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"settings": {**manifest().settings, "seed": 1}}, "settings.seed was 0, is 1"),
        ({"model": {"fingerprint": "b"}}, 'model was "sha256:1", is "b"'),
        ({"data": {"fingerprint": "b"}}, 'data was "sha256:2", is "b"'),
        ({"versions": {"attribound": "2", "torch": "2"}}, 'attribound was "1", is "2"'),
        ({"versions": {"attribound": "1", "torch": "3"}}, 'torch was "2", is "3"'),
        ({"inputs": {"c.json": "1"}}, 'inputs.c.json was null, is "1"'),
        ({"samples": 9}, "samples was 10, is 9"),
        ({"batch": 5}, "batch was 4, is 5"),
        ({"rows_per_sample": 3}, "rows per sample was 2, is 3"),
    ],
)
def test_what_decides_the_rows_is_another_run_and_is_named(
    changes: dict[str, Any], told: str
) -> None:
    other = manifest(**changes)
    assert other.identity != manifest().identity
    assert manifest().differences(other) == [told]


class TestDifferencesInLists:
    """A value in a list is compared setting by setting, as ``--set`` would name it."""

    def told(self, stored: Any, given: Any) -> list[str]:
        one, other = (manifest(settings={"claims": each}) for each in (stored, given))
        return one.differences(other)

    def test_of_the_same_length(self) -> None:
        stored = [{"kind": "first_order"}, {"kind": "mean_value", "shells": 2, "rounds": 1}]
        given = [{"kind": "first_order"}, {"kind": "mean_value", "shells": 4, "rounds": 1}]
        assert self.told(stored, given) == ["settings.claims.1.shells was 2, is 4"]

    def test_of_another_length(self) -> None:
        assert self.told([1, 2], [1]) == ["settings.claims was [1, 2], is [1]"]

    def test_tuples_are_lists(self) -> None:
        assert self.told([1, [2, 3]], (1, (2, 3))) == []
        assert self.told([1, [2, 3]], (1, (2, 4))) == ["settings.claims.1.1 was 3, is 4"]

    def test_long_ones_are_cut(self) -> None:
        (told,) = self.told([], ["x" * 500])
        assert len(told) < 180
        assert told.endswith("...")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"seed": 0', '"seed": 1', "changed since"),
        # What decides no rows is what a reader sees.
        ('"a model"', '"a better model"', "changed since"),
        ('"some data"', '"other data"', "changed since"),
        ('"b"', '"c"', "changed since"),
        ("2026-01-01", "2027-01-01", "changed since"),
        ('"checksum"', '"check"', "changed since"),
        ('"identity"', '"id"', "changed since"),
        ('"samples"', '"sample"', "missing or damaged entry"),
        ('"attribound run"', '"another"', "another kind of file"),
        ('"format_version": 3', '"format_version": 1', "format version 3, got 1"),
        ("{", "", "no JSON"),
    ],
)
def test_damage_is_found(old: str, new: str, named: str, tmp_path: Path) -> None:
    manifest().write(tmp_path)
    path = tmp_path / RUN
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=named):
        Manifest.read(tmp_path)


def test_no_file(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match=r"run.json.*no such file"):
            Manifest.read(folder)
