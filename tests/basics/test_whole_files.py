"""Files that are whole or not there."""

from __future__ import annotations

import hashlib
import os

import pytest

from attribound.basics import whole_files
from attribound.basics.whole_files import sha256_of, write_whole


def test_a_file_is_replaced(tmp_path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, memoryview(b"new"))
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, name) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    place = whole_files.os if name == "fsync" else whole_files.Path
    monkeypatch.setattr(place, name, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_name_is_forced_to_the_disk(tmp_path, monkeypatch) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(whole_files.os, "fsync", lambda d: (synced.append(d), real(d)))
    write_whole(tmp_path / "file", b"new")
    assert len(synced) == 2  # the file, then its folder


def test_a_folder_that_cannot_be_opened_is_let_be(tmp_path) -> None:
    whole_files.sync_folder(tmp_path / "missing")


def test_sha256(tmp_path) -> None:
    content = b"x" * (2**20 + 1)
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
