from __future__ import annotations

import gzip
import hashlib
import re
import struct

import pytest
import torch

import attribound as ab
from attribound.data import read_idx
from attribound.data.idx import idx_examples

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
