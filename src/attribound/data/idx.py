"""Read the idx files of MNIST and Fashion-MNIST, gzipped or plain."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

_UNSIGNED_BYTE = 0x08


def read_idx(path: str | Path) -> Tensor:
    """Return the unsigned-byte array of an idx file as a ``uint8`` tensor.

    Raises:
        ValueError: the file is truncated, corrupt or not an idx file of bytes.
    """
    path = Path(path)
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(
                f"{path.name}: expected a whole gzip file, got {error}; fetch it again"
            ) from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _UNSIGNED_BYTE:
        raise ValueError(
            f"{path.name}: expected an idx file of unsigned bytes, got {raw[:4]!r}; "
            "check that it is the original download"
        )
    rank = raw[3]
    start = 4 + 4 * rank
    shape = struct.unpack(f">{rank}I", raw[4:start]) if len(raw) >= start else ()
    if len(shape) != rank or len(raw) - start != math.prod(shape):
        raise ValueError(
            f"{path.name}: expected {math.prod(shape)} bytes of data for shape {shape}, "
            f"got {max(len(raw) - start, 0)}; the file is damaged, fetch it again"
        )
    array = np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
    return torch.from_numpy(array.copy())
