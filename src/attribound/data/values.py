"""Arrays of numbers as examples: recognise images, check features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.data.columns import Columns
from attribound.data.examples import InMemory, numbered_classes

_CHANNELS = (1, 3)


def array_examples(
    name: str,
    values: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    classes: Sequence[str] | None,
) -> InMemory:
    """Rows of features, ``(examples, features)``, or images with or without channels.

    Images ``(examples, height, width)``, with the channels (1 or 3) before or
    after, are bytes, or numbers in [0, 1]. Labels are whole numbers from 0, of
    shape ``(examples,)`` or ``(examples, 1)``. Without ``classes`` these are
    called by their numbers.

    Raises:
        InputError: the arrays are something else, or do not belong together.
    """
    numbers = label_numbers(name, labels)
    if values.dtype.kind not in "iufb":
        raise InputError(
            name,
            expected="an array of numbers",
            got=f"{values.dtype}",
            remedy="save numbers, for instance as float32",
        )
    tensor = _rows(name, values) if values.ndim == 2 else _images(name, values)
    return InMemory(name, tensor, numbers, classes or numbered_classes(name, numbers))


def embedded_examples(
    name: str,
    values: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    mask: np.ndarray[Any, Any] | None,
) -> InMemory:
    """Embedded texts ``(examples, tokens, channels)``: any finite numbers, channels of a token one.

    ``mask (examples, tokens)`` is 1 for tokens and 0 for padding, which can't change.

    Raises:
        InputError: the arrays are something else, or do not belong together.
    """
    if values.ndim != 3 or values.dtype.kind not in "iuf":
        raise InputError(
            name,
            expected="embeddings as numbers (examples, tokens, channels)",
            got=f"{values.dtype} of shape {values.shape}",
            remedy="save what goes into the network behind its table of embeddings",
        )
    _rows(name, values.reshape(len(values), -1))
    numbers = label_numbers(name, labels)
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    made = InMemory(name, tensor, numbers, numbered_classes(name, numbers))
    tokens, channels = values.shape[1:]
    made.columns = Columns.tokens([f"token {number + 1}" for number in range(tokens)], channels)
    if mask is not None:
        inside = mask.shape == values.shape[:2] and bool(np.isin(mask, (0, 1)).all())
        if not inside or not bool((mask != 0).any(1).all()):
            raise InputError(
                name,
                expected=f"a mask of 0 and 1 of shape {values.shape[:2]}, a token in every text",
                got=f"{mask.dtype} of shape {mask.shape}",
                remedy="write 1 for tokens and 0 for padding",
            )
        made.free = torch.from_numpy(mask != 0).unsqueeze(2).expand(tensor.shape)
    return made


def label_numbers(name: str, labels: np.ndarray[Any, Any]) -> Tensor:
    """Labels of shape ``(examples,)`` or ``(examples, 1)`` as ``(examples,)``.

    Raises:
        InputError: they are no whole numbers, or of another shape.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise InputError(
            name,
            expected="one whole number per example as label",
            got=f"{labels.dtype} of shape {labels.shape}",
            remedy="number the classes from 0",
        )
    return torch.from_numpy(labels.astype(np.int64))


def _rows(name: str, values: np.ndarray[Any, Any]) -> Tensor:
    rows = torch.from_numpy(values.astype(np.float32))
    if not bool(torch.isfinite(rows).all()):
        bad = int((~torch.isfinite(rows)).any(1).nonzero()[0])
        raise InputError(
            name,
            expected="finite float32 features",
            got=f"NaN or infinity in row {bad}",
            remedy="remove or fill in such rows",
        )
    return rows


def _images(name: str, values: np.ndarray[Any, Any]) -> Tensor:
    first, last = (
        values.ndim == 4 and values.shape[1] in _CHANNELS,
        values.ndim == 4 and values.shape[3] in _CHANNELS,
    )
    if values.ndim not in (3, 4) or (values.ndim == 4 and first == last):
        raise InputError(
            name,
            expected="rows (examples, features) or images (examples, height, width) with 1 or 3 "
            "channels before or after",
            got=f"shape {values.shape}",
            remedy="reshape the array before saving it",
        )
    if values.dtype != np.uint8 and not (
        values.size == 0 or 0 <= values.min() <= values.max() <= 1
    ):
        raise InputError(
            name,
            expected="images as bytes, or as numbers from 0 to 1",
            got=f"{values.dtype} from {values.min()} to {values.max()}",
            remedy="scale the pixels, or save them as uint8; save embedded texts (examples, "
            "tokens, channels) as embeddings, not as x",
        )
    if values.ndim == 3:
        values = values[:, None]
    elif last:
        values = values.transpose(0, 3, 1, 2)
    kind = np.uint8 if values.dtype == np.uint8 else np.float32
    return torch.from_numpy(np.ascontiguousarray(values, dtype=kind))
