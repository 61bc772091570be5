"""Who may write into a directory, and what a resume must agree with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from attribound.basics.errors import InputError
from attribound.training import directory as module
from attribound.training.directory import (
    Directory,
    differences,
    read_json,
    stored_settings,
    versions,
    write_json,
)


def document(**settings: object) -> dict[str, object]:
    return {"settings": {"epochs": 3, **settings}, "data": {"fingerprint": "a"}, "versions": {}}


def test_two_processes_cannot_train_in_one_directory(tmp_path) -> None:
    holder = f"""
import sys
from pathlib import Path
from attribound.training.directory import Directory
with Directory(Path({str(tmp_path)!r})).locked():
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(InputError, match=f"one process .*, got another .*process {other.pid} "),
            Directory(tmp_path).locked(),
        ):
            pass
        other.kill()
        other.wait()
        with Directory(tmp_path).locked():  # the lock went with the process
            pass


def test_a_directory_in_use_needs_resume(tmp_path) -> None:
    place = Directory(tmp_path)
    place.claim(document(), resume=False)
    assert read_json(place.config) == document()
    with pytest.raises(InputError, match="got one that has a training; pass --resume"):
        place.claim(document(), resume=False)
    place.claim(document(), resume=True)


def test_a_directory_with_something_else_is_refused(tmp_path) -> None:
    (tmp_path / "log.jsonl").write_text("mine")
    with pytest.raises(InputError, match=r"got log\.jsonl without config\.json"):
        Directory(tmp_path).claim(document(), resume=True)
    assert (tmp_path / "log.jsonl").read_text() == "mine"


def test_another_training_is_refused_with_the_difference(tmp_path) -> None:
    place = Directory(tmp_path)
    place.claim(document(optimiser={"lr": 0.1}), resume=False)
    with pytest.raises(InputError, match=r"settings\.optimiser\.lr is 0\.1 there and 0\.2 here"):
        place.claim(document(optimiser={"lr": 0.2}), resume=True)
    other = {**document(optimiser={"lr": 0.1}), "data": {"fingerprint": "b"}}
    with pytest.raises(InputError, match=r"data\.fingerprint is 'a' there and 'b' here"):
        place.claim(other, resume=True)


def test_what_changes_nothing_may_change(tmp_path) -> None:
    place = Directory(tmp_path)
    old = document(checkpoint={"seconds": 60}, data={"name": "x", "root": "/a"})
    new = document(checkpoint={"seconds": 5}, data={"name": "x", "root": "/b"})
    place.claim(old, resume=False)
    place.claim({**new, "versions": {"torch": "9"}}, resume=True)
    with pytest.raises(InputError, match=r"settings\.data\.name"):
        place.claim(document(data={"name": "y", "root": "/a"}), resume=True)


def test_only_the_first_differences_are_told(tmp_path) -> None:
    place = Directory(tmp_path)
    place.claim(document(**{f"s{i}": 0 for i in range(9)}), resume=False)
    with pytest.raises(InputError, match=r"s4 is 0 there and 1 here; \.\.\.;"):
        place.claim(document(**{f"s{i}": 1 for i in range(9)}), resume=True)


def test_differences_are_found_in_depth() -> None:
    assert differences({"a": {"b": [1]}}, {"a": {"b": [1]}}) == []
    assert differences({"a": 1}, {"b": 2}) == [
        "a is 1 there and None here",
        "b is None there and 2 here",
    ]


def test_a_damaged_config_is_named(tmp_path) -> None:
    place = Directory(tmp_path)
    place.config.write_text('{"settings": ')
    with pytest.raises(InputError, match=r"config\.json: expected JSON"):
        place.claim(document(), resume=True)


def test_an_interrupted_write_leaves_the_old_file(tmp_path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_versions_name_the_commit_of_a_checkout(tmp_path, monkeypatch) -> None:
    found = versions()
    assert set(found) == {"attribound", "torch", "python", "commit"}
    assert module._commit(tmp_path) is None
    (tmp_path / ".git").mkdir()  # no repository after all
    assert module._commit(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    module._commit.cache_clear()
    assert module._commit(tmp_path) is None


@pytest.mark.parametrize(
    ("stored", "got"), [({}, "none"), ([1], "none"), ({"settings": "a"}, "str")], ids=str
)
def test_a_description_without_settings(tmp_path, stored, got) -> None:
    directory = Directory(tmp_path)
    write_json(directory.config, stored)
    with pytest.raises(InputError, match=f"description of a training, .*, got {got}; the file was"):
        stored_settings(directory)
    write_json(directory.config, document())
    assert stored_settings(directory) == {"epochs": 3}
