"""What a file may cost before it is read: limits that small files with large claims don't pass."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attribound.basics.errors import InputError

#: A file may become this many times as large in memory, ...
TIMES = 200
#: ... and any may become so many bytes.
ALWAYS = 2**27
#: Largest file of settings: JSON and TOML.
LARGEST_TEXT = 2**26
#: Values of one example.
MOST_VALUES = 2**24
_ROOM = 2**31


def refuse_inflation(subject: str, becomes: int, stored: int, remedy: str) -> None:
    """Refuse data that claim to be much larger in memory than in their file.

    Args:
        subject: name of the file.
        becomes: bytes in memory.
        stored: bytes of the file.
        remedy: how to store them so that both are alike.

    Raises:
        InputError: they are more than :data:`TIMES` as large, and more than :data:`ALWAYS`.
    """
    most = max(ALWAYS, TIMES * stored)
    if becomes > most:
        raise InputError(
            subject,
            expected=f"data of at most {_size(most)} in a file of {_size(stored)}",
            got=f"{_size(becomes)}",
            remedy=remedy,
        )


def read_text(path: Path) -> str:
    """The text of a file of settings.

    Raises:
        InputError: it is larger than any settings are, or no plain file (a pipe, a device).
        OSError: it cannot be read.
        UnicodeDecodeError: it is no text.
    """
    size = path.stat().st_size
    plain = path.is_file()
    if not plain or size > LARGEST_TEXT:
        raise InputError(
            str(path),
            expected=f"a plain file of at most {_size(LARGEST_TEXT)}",
            got=_size(size) if plain else "a folder, a pipe or a device",
            remedy="check what it is: no settings are that large",
        )
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """The document in a JSON file, by :func:`read_text`.

    Raises:
        ValueError: it is no JSON, or nested deeper than any settings are.
    """
    return parse_json(read_text(path))


def parse_json(text: str | bytes) -> Any:
    """The document in a JSON text.

    Raises:
        ValueError: it is no JSON, or nested deeper than any settings are.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@contextmanager
def little_memory(stored: int) -> Iterator[None]:
    """Inside, requests for much more memory than a file of ``stored`` bytes needs fail.

    As ``MemoryError`` or ``RuntimeError``, before the memory is taken; by a limit on the address
    space of this process, which Linux has. Elsewhere there is no limit.
    """
    if sys.platform != "linux":
        yield
        return
    import resource  # noqa: PLC0415 - not everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + max(_ROOM, TIMES * stored)
    if soft != resource.RLIM_INFINITY:
        most = min(most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _size(size: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"
