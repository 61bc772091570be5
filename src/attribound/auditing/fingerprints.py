"""Recognise the examples of an audit; models are recognised by ``calibration.fingerprint``."""

from __future__ import annotations

import hashlib

import torch

from attribound.data import Examples

_AT_ONCE = 256


def data_fingerprint(examples: Examples) -> str:
    """``sha256:...`` of the shape, the labels and all values of these examples, in their order.

    Read piece by piece, so that it takes no memory to speak of. Names of data set and
    classes do not count.
    """
    digest = hashlib.sha256(f"{len(examples)} {examples.shape}".encode())
    digest.update(examples.labels.contiguous().numpy().data)
    for start in range(0, len(examples), _AT_ONCE):
        rows = torch.arange(start, min(start + _AT_ONCE, len(examples)))
        digest.update(examples.read(rows).contiguous().numpy().data)
    return f"sha256:{digest.hexdigest()}"
