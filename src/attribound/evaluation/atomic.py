"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribound import whole_files
from attribound.errors import AttriboundError


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
    with storing(path):
        whole_files.write_whole(path, content)


def is_leftover(path: Path) -> bool:
    """Whether this is what a killed ``write_whole`` leaves behind."""
    return path.name.startswith(".") and path.name.endswith(whole_files.UNFINISHED)


def clear_leftovers(folder: Path) -> None:
    """Remove what killed writers left; only for the one that may write there."""
    for path in folder.iterdir():
        if is_leftover(path):
            path.unlink(missing_ok=True)
