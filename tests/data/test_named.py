"""The data sets known by name: small copies in official formats, and the real ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import attribound as ab
from attribound.data import arrays, load, named
from attribound.data.registry import CIFAR10, FLOWERS17, IDX_SETS
from shared import needed, shared

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def batch(count: int = 4, seed: int = 0) -> bytes:
    return pickle.dumps({b"data": pixels(count, seed), b"labels": list(range(count))}, 2)


def archive(path: Path, members: dict[str, bytes]) -> str:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_cifar_from_its_archive(tmp_path, monkeypatch) -> None:
    members = {f"cifar-10-batches-py/data_batch_{k}": batch(seed=k) for k in (4, 3, 1, 2, 5)}
    members |= {"cifar-10-batches-py/test_batch": batch(2), "cifar-10-batches-py/readme.html": b"-"}
    digest = archive(tmp_path / "cifar10" / CIFAR10.name, members)
    with pytest.raises(ab.InputError, match="expected the official archive"):
        load("cifar10", root=tmp_path)
    monkeypatch.setattr(named, "CIFAR10", replace(CIFAR10, digest=digest))
    assert len(load("cifar10", root=tmp_path)) == 2
    train = load("cifar10", "train", root=tmp_path)
    expected = np.concatenate([pixels(4, seed=k) for k in range(1, 6)]).reshape(-1, 3, 32, 32)
    np.testing.assert_array_equal(arrays(train)[0].numpy(), expected / np.float32(255))
    assert train.classes[3] == "cat"


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py"])
def test_cifar_from_unpacked_batches(tmp_path, inner) -> None:
    folder = tmp_path / "cifar10" / inner
    folder.mkdir(parents=True)
    for k in range(1, 6):
        (folder / f"data_batch_{k}").write_bytes(batch(seed=k))
    (folder / "test_batch").write_bytes(batch(3))
    assert len(load("cifar10", root=tmp_path)) == 3
    assert len(load("cifar10", "train", root=tmp_path)) == 20


def flower(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (2, 2), (number - 1) // 80 * 15).save(stream, "PNG")
    return stream.getvalue()


def test_flowers_from_their_archive(tmp_path, monkeypatch) -> None:
    members = {f"jpg/image_{number:04}.jpg": flower(number) for number in range(1360, 0, -1)}
    digest = archive(tmp_path / "flowers17" / FLOWERS17.name, members | {"jpg/files.txt": b"-"})
    monkeypatch.setattr(named, "FLOWERS17", replace(FLOWERS17, digest=digest))
    test = load("flowers17", root=tmp_path, size=2)
    assert torch.bincount(test.labels).tolist() == [20] * 17
    assert all(round(float(x.mean()) * 255) == 15 * y for x, y in test)


def test_flowers_unpacked_with_one_missing(tmp_path) -> None:
    """Labels come from the numbers of the files; nothing shifts."""
    folder = tmp_path / "flowers17" / "jpg"
    folder.mkdir(parents=True)
    for number in range(1, 1361):
        (folder / f"image_{number:04}.jpg").write_bytes(flower(number))
    test = load("flowers17", root=tmp_path, size=2)
    assert all(round(float(x.mean()) * 255) == 15 * y for x, y in test)
    (folder / "image_last.jpg").write_bytes(b"not one of them")
    (folder / "image_0081.jpg").unlink()
    with pytest.raises(ab.InputError, match=r"expected 80 images of each class, got \[80, 79, 80,"):
        load("flowers17", root=tmp_path)


def test_flowers_unpacked_with_all_missing(tmp_path) -> None:
    (tmp_path / "flowers17" / "jpg").mkdir(parents=True)
    with pytest.raises(ab.InputError, match=r"expected 80 images of each class, got \[0, 0,"):
        load("flowers17", root=tmp_path)


def test_cifar_without_a_test_batch(tmp_path) -> None:
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "data_batch_1").write_bytes(batch())
    with pytest.raises(ab.InputError, match="cifar10: expected test_batch, got none of them"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "flowers17"])
def test_without_the_data_the_error_names_file_and_folder(tmp_path, monkeypatch, name) -> None:
    monkeypatch.setitem(
        named.IDX_SETS, "fashion-mnist", replace(IDX_SETS["fashion-mnist"], installed=())
    )
    with pytest.raises(
        ab.InputError, match=rf"^{name}: expected \S+gz in {tmp_path}/{name}, got no"
    ):
        load(name, root=tmp_path, download=False)


def test_one_set_in_the_folder_of_the_other_is_seen(tmp_path) -> None:
    """The two have the same file names."""
    needed(DEBIAN, "install dataset-fashion-mnist")
    (tmp_path / "mnist").symlink_to(DEBIAN)
    with pytest.raises(ab.InputError, match=r"expected the official content .*another data set"):
        load("mnist", root=tmp_path)


def test_a_changed_label_is_seen(tmp_path) -> None:
    needed(DEBIAN, "install dataset-fashion-mnist")
    (tmp_path / "fashion-mnist").mkdir()
    for file in DEBIAN.glob("t10k*"):
        raw = bytearray(gzip.decompress(file.read_bytes()))
        raw[-1] = (raw[-1] + 1) % 10
        (tmp_path / "fashion-mnist" / file.stem).write_bytes(raw)
    with pytest.raises(ab.InputError, match="expected the official content"):
        load("fashion-mnist", root=tmp_path)


@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10"])
def test_data_of_a_fixed_size(name) -> None:
    with pytest.raises(ab.InputError, match=f"^{name}: .* got data of a fixed shape"):
        load(name, size=64)


def test_the_registry_is_well_formed() -> None:
    files = [f for known in IDX_SETS.values() for part in known.files.values() for f in part]
    for file in (*files, CIFAR10, FLOWERS17):
        algorithm, digest = file.digest.split(":")
        assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
        assert all(url.endswith(f"/{file.name}") for url in file.urls)
    digests = [digest for file in files for digest in (file.digest, file.content)]
    assert len(set(digests)) == len(digests) == 16


def test_fashion_mnist_from_debian(tmp_path) -> None:
    needed(DEBIAN, "install dataset-fashion-mnist")
    test = load("fashion-mnist", root=tmp_path, download=False)
    assert test.shape == (1, 28, 28)
    assert torch.bincount(test.labels).tolist() == [1000] * 10
    assert [test.classes[y] for y in test.labels[:3]] == ["Ankle boot", "Pullover", "Trouser"]
    x, y = arrays(test)
    assert (x.shape, x.dtype, y.dtype) == ((10_000, 1, 28, 28), torch.float32, torch.int64)
    assert (x.min(), x.max()) == (0, 1)
    assert (
        torch.bincount(load("fashion-mnist", "train", root=tmp_path).labels).tolist() == [6000] * 10
    )


def test_mnist() -> None:
    root = shared("mnist").parent
    test, train = (load("mnist", part, root=root, download=False) for part in ("test", "train"))
    assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert torch.bincount(test.labels).tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]
    assert len(train) == 60_000
    assert float(arrays(train)[0].mean()) == pytest.approx(0.1307, abs=1e-4)  # the published mean


def test_the_checksums_of_mnist_are_those_of_the_official_files() -> None:
    """MD5 as published with the files."""
    published = {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    for part in IDX_SETS["mnist"].files.values():
        for file in part:
            raw = shared("mnist", file.name).read_bytes()
            assert hashlib.md5(raw).hexdigest() == published[file.name]
            assert file.digest == f"sha256:{hashlib.sha256(raw).hexdigest()}"


def test_cifar10() -> None:
    root = shared("cifar10").parent
    test = load("cifar10", root=root, download=False)
    assert test.shape == (3, 32, 32)
    assert torch.bincount(test.labels).tolist() == [1000] * 10
    assert [test.classes[y] for y in test.labels[:4]] == ["cat", "ship", "ship", "airplane"]
    means = arrays(test)[0].mean((0, 2, 3)).tolist()
    assert means == pytest.approx([0.4942, 0.4851, 0.4504], abs=1e-3)  # of the test images


def test_part_of_cifar10(tmp_path) -> None:
    folder = tmp_path / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name in ("batches.meta", "data_batch_1", "data_batch_2", "test_batch"):
        (folder / name).symlink_to(shared("cifar10", "cifar-10-batches-py", name))
    with pytest.warns(UserWarning, match="of 5 training batches"):
        train = load("cifar10", "train", root=tmp_path, download=False)
    assert len(train) == 20_000


def test_flowers17() -> None:
    root = shared("flowers17").parent
    test = load("flowers17", root=root, download=False)
    assert test.shape == (3, 128, 128)
    assert (len(test), test.classes[16]) == (340, "pansy")
    x, y = arrays(test.select(torch.arange(0, 340, 40)))
    assert x.shape == (9, 3, 128, 128)
    assert 0 <= x.min() < 0.1
    assert 0.9 < x.max() <= 1
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 16]


def test_imagenet() -> None:
    data = load("imagenet", root=shared("imagenet").parent)
    assert data.labels.tolist() == list(range(0, 1000, 10))
    x, _ = arrays(data)
    assert x.shape == (100, 3, 224, 224)
    assert x.mean((0, 2, 3)).tolist() == pytest.approx(
        [0.485, 0.456, 0.406], abs=0.05
    )  # as published
