from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

import attribound as ab
from attribound.data import NAMES, load


def write_idx(folder: Path, part: str, count: int, *, zipped: bool = False) -> None:
    images = b"\0\0\x08\x03" + struct.pack(">3I", count, 2, 2) + bytes(4 * count)
    labels = b"\0\0\x08\x01" + struct.pack(">I", count) + bytes(k % 3 for k in range(count))
    for kind, raw in (("images-idx3", images), ("labels-idx1", labels)):
        name = f"{part}-{kind}-ubyte"
        (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(raw) if zipped else raw)


def test_a_folder_of_idx_files(tmp_path) -> None:
    write_idx(tmp_path, "train", 7, zipped=True)
    write_idx(tmp_path, "t10k", 5)
    assert (len(load(tmp_path, "train")), len(load(tmp_path))) == (7, 5)
    assert load(tmp_path).classes == ("0", "1", "2")
    with pytest.raises(ab.InputError, match="got data of a fixed shape"):
        load(tmp_path, size=4)


def test_files_that_do_not_belong_together(tmp_path) -> None:
    write_idx(tmp_path, "t10k", 5)
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(b"\0\0\x08\x01" + struct.pack(">I", 4) + bytes(4))
    with pytest.raises(ab.InputError, match="got 5 examples and 4 labels; the files do not belong"):
        load(tmp_path)
    labels.unlink()
    with pytest.raises(
        ab.InputError, match=r"expected t10k-labels-idx1-ubyte or .*gz, got no such"
    ):
        load(tmp_path)


def test_a_name_is_not_a_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(load("digits")) > 300
    with pytest.raises(ab.InputError, match="got no folders"):
        load("./digits")


def test_refuses_what_it_does_not_know(tmp_path) -> None:
    with pytest.raises(
        ab.InputError, match=f"^minst: expected one of {', '.join(NAMES)}, a folder"
    ):
        load("minst")
    (tmp_path / "x.xls").write_text("1,2")
    with pytest.raises(ab.InputError, match=r"x.xls: .*, got a file of another kind"):
        load(tmp_path / "x.xls")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "val"}, "split: expected 'train' or 'test', got 'val'"),
        ({"size": 0}, "size: expected at least 1, got 0"),
    ],
)
def test_refuses_other_settings(settings, message) -> None:
    with pytest.raises(ab.InputError, match=f"^{message}"):
        load("digits", **settings)
