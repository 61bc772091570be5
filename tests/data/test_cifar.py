from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import attribound as ab
from attribound.data.cifar import cifar_examples, read_batch

CLASSES = [str(c) for c in range(10)]


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def batch(count: int = 4, seed: int = 0, protocol: int = 2, **changes: object) -> bytes:
    content = {b"data": pixels(count, seed), b"labels": [k % 10 for k in range(count)]}
    content |= {b"batch_label": b"testing batch 1 of 1", b"filenames": [b"a.png"] * count}
    content |= {name.encode(): value for name, value in changes.items()}
    return pickle.dumps(content, protocol)


def python2_batch() -> bytes:
    """As the official files are written: protocol 2, byte strings, NumPy's old module names."""
    raw = pixels(1).tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    )
    array += b"T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels]K\x07au."


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_reads_what_numpy_of_any_time_wrote(protocol) -> None:
    images, labels = read_batch(batch(protocol=protocol), "b")
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(images.numpy(), pixels(4).reshape(4, 3, 32, 32))
    assert labels.tolist() == [0, 1, 2, 3]


def test_reads_the_pickles_of_python_2() -> None:
    images, labels = read_batch(python2_batch(), "b")
    np.testing.assert_array_equal(images.numpy(), pixels(1).reshape(1, 3, 32, 32))
    assert labels.tolist() == [7]


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_runs_no_code_from_the_file(tmp_path) -> None:
    marker = tmp_path / "executed"
    raw = batch(filenames=Hostile(marker))
    with pytest.raises(
        ab.InputError, match=r"b: expected a pickled CIFAR-10 batch, .*system is refused"
    ):
        read_batch(raw, "b")
    assert not marker.exists()
    pickle.loads(raw)  # the check can fail: an ordinary unpickler does run it
    assert marker.exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval is refused"),
        (b"cnumpy\nload\n(S'x'\ntR.", "numpy.load is refused"),
        (
            pickle.dumps(np.array([object()])),
            "builtins.object is refused|an array of 'O8' is refused",
        ),
        (pickle.dumps(np.zeros(3)), "an array of 'f8' is refused"),
        (b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0rot13\x86R.", "the encoding 'rot13'"),
        (b"Pwhere\n.", "the outside object 'where' is refused"),
        (batch()[:-100], "truncated|ran out|EOF"),
        (b"", "EOFError"),
        (b"\x89PNG", "UnpicklingError"),
    ],
)
def test_refuses_anything_but_bytes_in_containers(raw, message) -> None:
    with pytest.raises(
        ab.InputError, match=f"^b: expected a pickled CIFAR-10 batch, got .*({message})"
    ):
        read_batch(raw, "b")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (pickle.dumps([1, 2]), r"got list; check"),
        (pickle.dumps({b"data": 1}), r"got \{b'data': int\}"),
        (batch(data=pixels(4)[:, :3000]), r"b'data': ndarray\(4, 3000\)"),
        (batch(labels=["cat"] * 4), "'labels', a list of numbers"),
        (batch(labels=[1, 2, 3]), "expected as many labels as images, got 4 images and 3 labels"),
    ],
)
def test_refuses_other_contents(raw, message) -> None:
    with pytest.raises(ab.InputError, match=f"^b: .*{message}"):
        read_batch(raw, "b")


def test_the_parts() -> None:
    batches = {f"data_batch_{k}": batch(seed=k) for k in range(1, 6)} | {"test_batch": batch(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train = cifar_examples("c", batches, True, CLASSES)
        test = cifar_examples("c", batches, False, CLASSES)
    assert (len(train), len(test)) == (20, 2)
    expected = pixels(4, seed=5)[3].reshape(3, 32, 32) / np.float32(255)
    np.testing.assert_array_equal(train[19][0].numpy(), expected)


def test_part_of_the_training_batches_is_loaded_with_a_warning() -> None:
    batches = {f"data_batch_{k}": batch(seed=k) for k in (1, 2)}
    with pytest.warns(UserWarning, match="2 of 5 training batches are there"):
        assert len(cifar_examples("c", batches, True, CLASSES)) == 8


@pytest.mark.parametrize(
    ("names", "training", "message"),
    [
        (["data_batch_1", "data_batch_3"], True, "got data_batch_1, data_batch_3; unpack"),
        ([], True, "got none of them"),
        (["data_batch_1"], False, "expected test_batch, got none"),
    ],
)
def test_missing_batches(names, training, message) -> None:
    with pytest.raises(ab.InputError, match=f"^c: .*{message}"):
        cifar_examples("c", dict.fromkeys(names, batch()), training, CLASSES)


def test_labels_out_of_range() -> None:
    batches = {"test_batch": batch(labels=[0, 1, 2, 10])}
    with pytest.raises(ab.InputError, match=r"^c: expected labels from 0 to 9, got 10"):
        cifar_examples("c", batches, False, CLASSES)
