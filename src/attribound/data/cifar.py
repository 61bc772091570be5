"""Read the pickled batches of CIFAR-10 without running code from them."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.data.examples import InMemory

_PIXELS = 3 * 32 * 32
_TRAINING = [f"data_batch_{number}" for number in range(1, 6)]


def cifar_examples(
    name: str, batches: Mapping[str, bytes], training: bool, classes: Sequence[str]
) -> InMemory:
    """The training or test part, from the contents of the batch files, by file name.

    A training part without its last batches is loaded with a warning.

    Raises:
        InputError: a batch is missing or damaged.
    """
    wanted = _TRAINING if training else ["test_batch"]
    present = [batch for batch in wanted if batch in batches]
    # A gap in the middle is an accident; a shorter training set may be meant.
    if not present or present != wanted[: len(present)]:
        raise InputError(
            name,
            expected=", ".join(wanted),
            got=", ".join(present) or "none of them",
            remedy="unpack cifar-10-python.tar.gz again, or put the archive itself there",
        )
    if len(present) < len(wanted):
        warnings.warn(
            f"{name}: {len(present)} of {len(wanted)} training batches are there; "
            "only these are loaded",
            stacklevel=2,
        )
    images, labels = zip(*[read_batch(batches[b], f"{name}: {b}") for b in present], strict=True)
    return InMemory(name, torch.cat(images), torch.cat(labels), classes)


def read_batch(raw: bytes, subject: str) -> tuple[Tensor, Tensor]:
    """Images ``(examples, 3, 32, 32)`` as ``uint8`` and labels of one pickled batch.

    The unpickler builds byte arrays and plain containers and refuses everything
    else, so reading a hostile file runs none of its code.

    Raises:
        InputError: the file is damaged, hostile, or no CIFAR-10 batch.
    """
    try:
        batch = _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
    # A damaged pickle can fail in any operation of the unpickler.
    except Exception as error:
        raise InputError(
            subject,
            expected="a pickled CIFAR-10 batch",
            got=f"{type(error).__name__}: {error}",
            remedy="the file is damaged or not the original, fetch it again",
        ) from error
    data = batch.get(b"data") if isinstance(batch, dict) else None
    labels = batch.get(b"labels") if isinstance(batch, dict) else None
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.shape[1:] != (_PIXELS,)
        or not isinstance(labels, list)
        or not all(isinstance(label, int) for label in labels)
    ):
        raise InputError(
            subject,
            expected=f"'data', bytes (examples, {_PIXELS}), and 'labels', a list of numbers",
            got=_describe(batch),
            remedy="check that it is a batch of the Python version of CIFAR-10",
        )
    if len(data) != len(labels):
        raise InputError(
            subject,
            expected="as many labels as images",
            got=f"{len(data)} images and {len(labels)} labels",
            remedy="the file is damaged, fetch it again",
        )
    images = torch.from_numpy(data.copy()).reshape(-1, 3, 32, 32)
    return images, torch.tensor(labels, dtype=torch.int64)


def _describe(batch: object) -> str:
    if not isinstance(batch, dict):
        return type(batch).__name__
    parts = [
        f"{key!r}: {type(value).__name__}{getattr(value, 'shape', '')}"
        for key, value in batch.items()
    ]
    return f"{{{', '.join(parts)}}}"


def _bytes_only(code: object, *_: object) -> np.dtype[np.uint8]:
    """What a pickled ``dtype`` may be."""
    if code not in ("u1", b"u1"):
        raise pickle.UnpicklingError(f"an array of {code!r} is refused")
    return np.dtype(np.uint8)


def _from_buffer(
    buffer: bytes, dtype: np.dtype[np.uint8], shape: Sequence[int], order: Literal["C", "F"]
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """How newer versions of NumPy and pickle write an array."""
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2's protocol."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is refused")
    return text.encode("latin1")


# NumPy has moved its function that makes an empty array to fill; this is it in any version.
_RECONSTRUCT = np.empty(0, np.uint8).__reduce__()[0]

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _bytes_only,
    ("_codecs", "encode"): _encode,
}


class _BatchUnpickler(pickle.Unpickler):
    """Looks names up in a short table instead of importing them."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is refused") from None

    def persistent_load(self, pid: object) -> Any:
        raise pickle.UnpicklingError(f"the outside object {pid!r} is refused")
