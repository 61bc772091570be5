"""Arrays saved by NumPy, as one ``.npz`` file."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attribound.basics.errors import InputError
from attribound.basics.limits import refuse_inflation
from attribound.data.examples import InMemory
from attribound.data.splits import Split, whole
from attribound.data.values import array_examples, embedded_examples

_VALUES = ("x", "X", "images", "data", "features")
_LABELS = ("y", "labels", "target", "targets")
_EMBEDDED = ("embeddings",)
_MASKS = ("mask", "attention_mask")
_CLASSES = ("classes", "class_names")


def read_npz(path: Path, split: Split | None) -> InMemory:
    """Arrays ``x`` and ``y``, or ``x_test`` and ``y_test`` (``x_train``, ``y_train``).

    Also under the names ``images``, ``data``, ``features`` and ``labels``,
    ``target``, the split before or after; the names of the classes may be there
    as ``classes``. Embedded texts are ``embeddings``, with a ``mask`` of what is no padding.
    Pickled objects are refused.

    Raises:
        InputError: the file is damaged, or has other arrays.
    """
    try:
        # Opened here: NumPy leaves its own file open if the archive is damaged.
        with path.open("rb") as stream:
            # What is no zip archive NumPy would take for a single array.
            with zipfile.ZipFile(stream) as archive:
                _refuse_claims(path, archive)
            stream.seek(0)
            return _examples(path, np.load(stream, allow_pickle=False), split)
    except InputError:
        raise
    # NotImplementedError and RuntimeError: a way of packing that Python doesn't know.
    except (
        *(OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error),
        *(NotImplementedError, RuntimeError, SyntaxError, OverflowError),
    ) as error:
        raise InputError(
            str(path),
            expected="a whole .npz file without pickled objects",
            got=str(error),
            remedy="save it again with numpy.savez, numbers as numbers and names as text arrays",
        ) from error


def _refuse_claims(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse arrays that are larger than their file can be, before any memory is taken."""
    becomes = sum(info.file_size for info in archive.infolist())
    refuse_inflation(
        str(path),
        becomes,
        path.stat().st_size,
        "save it again with numpy.savez, which packs nothing",
    )
    for info in archive.infolist():
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(member)
            claimed = math.prod(shape) * dtype.itemsize
            if not dtype.hasobject and member.tell() + claimed != info.file_size:
                raise InputError(
                    str(path),
                    expected=f"{claimed:,} bytes for {info.filename} of shape {shape}",
                    got=f"{info.file_size - member.tell():,}",
                    remedy="the file is damaged: save it again with numpy.savez",
                )


def _examples(path: Path, file: Any, split: Split | None) -> InMemory:
    part = split or "test"
    if (found := _embedded(path, file, split)) is not None:
        return found
    values = _first(file, _of_part(_VALUES, part))
    labels = _first(file, _of_part(_LABELS, part))
    if values is None and labels is None:
        other = "train" if part == "test" else "test"
        if _first(file, _of_part(_VALUES, other)) is None:
            whole(str(path), split)
            values, labels = _first(file, _VALUES), _first(file, _LABELS)
    if values is None or labels is None:
        raise InputError(
            str(path),
            expected=f"arrays x and y, or x_{part} and y_{part}",
            got=", ".join(file.files) or "nothing",
            remedy="save it with numpy.savez(path, x=..., y=...)",
        )
    names = _first(file, _CLASSES)
    classes = None if names is None else [str(name) for name in file[names]]
    return array_examples(path.stem, file[values], file[labels], classes)


def _embedded(path: Path, file: Any, split: Split | None) -> InMemory | None:
    """Embedded texts, if there are any."""
    parts = _first(file, _of_part(_EMBEDDED, split or "test")) is not None
    if not parts:
        if _first(file, _EMBEDDED) is None:
            return None
        whole(str(path), split)

    def array(names: Sequence[str]) -> Any:
        found = _first(file, _of_part(names, split or "test") if parts else names)
        return None if found is None else file[found]

    values, labels, mask = array(_EMBEDDED), array(_LABELS), array(_MASKS)
    if labels is None:
        raise InputError(
            str(path),
            expected="labels y beside embeddings",
            got=", ".join(file.files),
            remedy="save it with numpy.savez(path, embeddings=..., mask=..., y=...)",
        )
    return embedded_examples(path.stem, values, labels, mask)


def _of_part(names: Sequence[str], part: str) -> list[str]:
    return [*(f"{name}_{part}" for name in names), *(f"{part}_{name}" for name in names)]


def _first(file: Any, names: Iterable[str]) -> str | None:
    return next((name for name in names if name in file.files), None)
