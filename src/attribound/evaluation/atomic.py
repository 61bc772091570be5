"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribound.errors import AttriboundError

_SUFFIX = ".tmp"


class StorageError(AttriboundError):
    """The system could not store a file: no space, no permission, a broken disk.

    What was stored before is whole, and the run goes on from there when there is room.
    """


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write ``path`` into a ``StorageError``."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise StorageError(
            str(path),
            expected="to be written",
            got=f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'unknown')})",
            remedy=("make room" if full else "check the disk and the permissions")
            + " and resume: what was stored before is whole",
        ) from error


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write beside, force to disk, rename: a reader sees the old file or all of the new one.

    Raises:
        StorageError: the system refused; nothing of the new file is left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")
    with storing(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)


def is_leftover(path: Path) -> bool:
    """Whether this is what a killed ``write_whole`` leaves behind."""
    return path.name.startswith(".") and path.name.endswith(_SUFFIX)


def clear_leftovers(folder: Path) -> None:
    """Remove what killed writers left; only for the one that may write there."""
    for path in folder.iterdir():
        if is_leftover(path):
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system lets folders be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows: the rename is journalled there
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
