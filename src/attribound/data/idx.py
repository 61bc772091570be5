"""Read the idx files of MNIST and its kin, gzipped or plain."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.limits import ALWAYS, TIMES, refuse_inflation
from attribound.data.examples import InMemory, numbered_classes

_UNSIGNED_BYTE = 0x08


def read_idx(path: str | Path, *, sha256: str | None = None) -> Tensor:
    """Return the unsigned-byte array of an idx file as a ``uint8`` tensor.

    With ``sha256`` the uncompressed content must have that digest: the same for
    every copy, however it was compressed.

    Raises:
        InputError: the file is truncated, corrupt, not an idx file of bytes, or
            not the one expected.
    """
    path = Path(path)
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as packed:
                most = max(ALWAYS, TIMES * len(raw))
                unpacked = packed.read(most + 1)
            refuse_inflation(path.name, len(unpacked), len(raw), "store it unpacked, without .gz")
            raw = unpacked
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(
                path.name, expected="a whole gzip file", got=str(error), remedy="fetch it again"
            ) from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _UNSIGNED_BYTE:
        raise InputError(
            path.name,
            expected="an idx file of unsigned bytes",
            got=repr(raw[:4]),
            remedy="check that it is the original download",
        )
    rank = raw[3]
    start = 4 + 4 * rank
    shape = struct.unpack(f">{rank}I", raw[4:start]) if len(raw) >= start else ()
    if len(shape) != rank or len(raw) - start != math.prod(shape):
        raise InputError(
            path.name,
            expected=f"{math.prod(shape)} bytes of data for shape {shape}",
            got=str(max(len(raw) - start, 0)),
            remedy="the file is damaged, fetch it again",
        )
    if sha256 is not None and (found := hashlib.sha256(raw).hexdigest()) != sha256:
        raise InputError(
            str(path),
            expected=f"the official content (SHA-256 {sha256})",
            got=found,
            remedy="it belongs to another data set or was changed: MNIST, Fashion-MNIST and others "
            "share these file names; put the right file there, or load its folder by path",
        )
    array = np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
    return torch.from_numpy(array.copy())


def idx_examples(
    name: str, images: Tensor, labels: Tensor, classes: Sequence[str] | None = None
) -> InMemory:
    """Grey images ``(examples, height, width)`` and their labels, as read from idx files.

    Raises:
        InputError: these are no images and labels, or not of the same examples.
    """
    if images.dim() != 3 or labels.dim() != 1:
        raise InputError(
            name,
            expected="images (examples, height, width) and labels (examples,)",
            got=f"shapes {tuple(images.shape)} and {tuple(labels.shape)}",
            remedy="check that the files have each other's names",
        )
    if classes is None:
        classes = numbered_classes(name, labels)
    return InMemory(name, images.unsqueeze(1), labels, classes)
