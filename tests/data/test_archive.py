from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

import attribound as ab
from attribound.data.archive import read_members


def write_archive(path: Path, members: dict[str, bytes]) -> str:
    """Write a .tar.gz with a folder and a link besides ``members``; its digest."""
    with tarfile.open(path, "w:gz") as archive:
        for name, kind in (("jpg/dir.jpg", tarfile.DIRTYPE), ("jpg/dangling.jpg", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/hostname"
            archive.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_reads_what_matches_and_unpacks_nothing(tmp_path) -> None:
    members = {"jpg/1.jpg": b"one", "jpg/2.jpg": b"two", "x/jpg/1.jpg": b"-", "../evil.jpg": b"-"}
    digest = write_archive(tmp_path / "a.tgz", members)
    found = read_members(tmp_path / "a.tgz", digest, r"jpg/\d\.jpg")
    assert found == {"jpg/1.jpg": b"one", "jpg/2.jpg": b"two"}
    assert [file.name for file in tmp_path.iterdir()] == ["a.tgz"]


def test_folders_and_links_are_no_members(tmp_path) -> None:
    digest = write_archive(tmp_path / "a.tgz", {"jpg/1.jpg": b"one"})
    assert read_members(tmp_path / "a.tgz", digest, r"jpg/.*\.jpg") == {"jpg/1.jpg": b"one"}


def test_refuses_another_archive(tmp_path) -> None:
    digest = write_archive(tmp_path / "a.tgz", {"b": b"one"})
    (tmp_path / "a.tgz").write_bytes((tmp_path / "a.tgz").read_bytes()[:-1])
    with pytest.raises(
        ab.InputError, match=r"a.tgz: expected the official archive \(sha256:.*unpack it"
    ):
        read_members(tmp_path / "a.tgz", digest, "b")


@pytest.mark.parametrize("raw", [b"no archive", gzip.compress(b"no archive" * 100, mtime=0)])
def test_refuses_what_is_no_archive(tmp_path, raw) -> None:
    (tmp_path / "a.tgz").write_bytes(raw)
    digest = f"md5:{hashlib.md5(raw).hexdigest()}"
    with pytest.raises(ab.InputError, match=r"a.tgz: expected a whole tar archive, got"):
        read_members(tmp_path / "a.tgz", digest, "b")
