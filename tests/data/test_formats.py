"""Data of known formats: digits, samples, archives, IDX files."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import struct
import tarfile
from importlib import resources
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

import attribound as ab
from attribound.data import arrays, load, read_idx
from attribound.data.archive import read_members
from attribound.data.idx import idx_examples
from shared import needed


def test_the_digits_in_two_fixed_parts() -> None:
    test, train = load("digits"), load("digits", "train")
    assert len(test) + len(train) == 1797
    assert test.shape == (1, 8, 8)
    assert test.classes == tuple("0123456789")
    x, y = arrays(test)
    assert (x.min(), x.max()) == (0, 1)
    assert torch.equal(arrays(load("digits", "test"))[0], x)
    originals = {
        image.tobytes(): label for image, label in zip(*load_digits(return_X_y=True), strict=True)
    }
    both = torch.cat([x, arrays(train)[0]]), torch.cat([y, train.labels])
    found = {
        (16 * image).double().numpy().tobytes(): int(label)
        for image, label in zip(*both, strict=True)
    }
    assert found == originals


DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def test_the_sample_needs_no_files_and_no_network(tmp_path) -> None:
    sample = load("fashion-mnist-sample", root=tmp_path, download=False)
    x, y = arrays(sample)
    assert x.shape == (128, 1, 28, 28)
    assert (x.min(), x.max()) == (0, 1)
    assert sample.classes[int(y[0])] == "Ankle boot"
    assert torch.equal(arrays(load("fashion-mnist-sample", "test"))[0], x)


def test_it_is_the_beginning_of_the_test_part() -> None:
    needed(DEBIAN, "apt-get install dataset-fashion-mnist")
    whole = load("fashion-mnist", "test", root=DEBIAN.parent)
    sample = load("fashion-mnist-sample")
    first = torch.arange(len(sample))
    assert torch.equal(sample.read(first), whole.read(first))
    assert torch.equal(sample.labels, whole.labels[first])
    assert sample.classes == whole.classes


def test_no_test_image_is_called_training_data() -> None:
    with pytest.raises(ab.InputError, match="it has test images only"):
        load("fashion-mnist-sample", "train")


def test_its_licence_comes_with_it() -> None:
    folder = resources.files("attribound.data") / "samples"
    licence = (folder / "LICENSE-fashion-mnist.txt").read_text()
    assert "Zalando SE" in licence
    assert "Permission is hereby granted, free of charge" in licence
    assert len((folder / "fashion-mnist.npz").read_bytes()) < 80_000


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


ARRAY = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
PLAIN = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + bytes(range(24))
ZIPPED = gzip.compress(bytes(256) + PLAIN * 50, mtime=0)


@pytest.mark.parametrize("kind", [str, lambda path: path])
@pytest.mark.parametrize("content", [PLAIN, gzip.compress(PLAIN, mtime=0)])
def test_reads_plain_and_gzipped_files(tmp_path, content, kind) -> None:
    (tmp_path / "images").write_bytes(content)
    array = read_idx(kind(tmp_path / "images"))
    assert array.dtype == torch.uint8
    assert torch.equal(array, ARRAY)
    array += 1  # its own memory, not the file's


def test_reads_an_array_of_no_examples(tmp_path) -> None:
    (tmp_path / "images").write_bytes(b"\0\0\x08\x02" + struct.pack(">2I", 0, 4))
    assert read_idx(tmp_path / "images").shape == (0, 4)


NOT_IDX = "expected an idx file of unsigned bytes, got "


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PLAIN[:-1], r"expected 24 bytes of data for shape \(2, 3, 4\), got 23; .*damaged"),
        (PLAIN + b"\0", r"expected 24 bytes of data for shape \(2, 3, 4\), got 25"),
        (PLAIN[:10], "damaged, fetch it again"),
        (gzip.compress(PLAIN[:-5], mtime=0), "got 19; .*damaged"),
        (ZIPPED[:-30], "expected a whole gzip file, got .*; fetch it again"),
        (ZIPPED[:20] + b"\xff" * 9 + ZIPPED[29:], "expected a whole gzip file"),
        (ZIPPED[:-8] + b"\xff" * 8, "expected a whole gzip file, got CRC check failed"),
        (b"", NOT_IDX + "b''; check that it is the original download"),
        (b"\0\0\x08", NOT_IDX),
        (b"\x89PNG" + PLAIN, re.escape(NOT_IDX + r"b'\x89PNG'")),
        (PLAIN.replace(b"\x08", b"\x0d", 1), NOT_IDX),
    ],
)
def test_refuses_a_damaged_file(tmp_path, content, message) -> None:
    (tmp_path / "images.gz").write_bytes(content)
    with pytest.raises(ValueError, match=f"^images.gz: .*{message}"):
        read_idx(tmp_path / "images.gz")


def test_knows_the_official_content_however_it_was_compressed(tmp_path) -> None:
    digest = hashlib.sha256(PLAIN).hexdigest()
    for content in (PLAIN, gzip.compress(PLAIN, 1), gzip.compress(PLAIN, 9)):
        (tmp_path / "images").write_bytes(content)
        assert torch.equal(read_idx(tmp_path / "images", sha256=digest), ARRAY)


def test_refuses_a_file_of_another_data_set(tmp_path) -> None:
    """MNIST and Fashion-MNIST have the same file names: one changed byte is another data set."""
    (tmp_path / "images").write_bytes(PLAIN[:-1] + b"\xff")
    digest = hashlib.sha256(PLAIN).hexdigest()
    with pytest.raises(ab.InputError, match=f"images: expected the official content .*{digest}"):
        read_idx(tmp_path / "images", sha256=digest)


def test_images_and_labels_make_examples() -> None:
    data = idx_examples("tiny", ARRAY, torch.tensor([2, 0], dtype=torch.uint8))
    assert data.shape == (1, 3, 4)
    assert data.classes == ("0", "1", "2")
    assert torch.equal(data[1][0], ARRAY[1:] / 255)
    assert len(idx_examples("none", ARRAY[:0], torch.zeros(0, dtype=torch.uint8))) == 0


def test_refuses_labels_as_images() -> None:
    labels = torch.zeros(2, dtype=torch.uint8)
    with pytest.raises(
        ab.InputError, match=r"tiny: expected images .* got shapes \(2,\) and \(2, 3, 4"
    ):
        idx_examples("tiny", labels, ARRAY)
