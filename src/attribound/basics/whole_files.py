"""Files that are whole or not there, whatever happens to the process."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from attribound.basics.errors import AttriboundError, InputError

#: How the names of unfinished files end; they begin with a dot.
UNFINISHED = ".tmp"


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write beside ``path``, wait until it is on the disk, and move it there.

    A reader sees the old file or all of the new one. If the system refuses, nothing is
    left; a killed process leaves a hidden file that ends in ``UNFINISHED``.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


class StorageError(AttriboundError):
    """The system could not store a file: no space, no permission, a broken disk.

    What was stored before is whole, and the run goes on from there when there is room.
    """


@contextlib.contextmanager
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


_NO_FOLDER = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL)


def made_folder(path: Path) -> Path:
    """``path`` as a folder, with those above it.

    Raises:
        InputError: something else is there, or no folder can be called so.
        StorageError: the system refused to write.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_FOLDER:
            with storing(path):
                raise
        raise InputError(
            str(path),
            expected="the name of a folder, which is there or can be made",
            got=getattr(error, "strerror", None) or str(error),
            remedy="choose another",
        ) from error
    return path


def store_whole(path: Path, content: bytes | memoryview) -> None:
    """:func:`write_whole` for what can be resumed.

    Raises:
        StorageError: the system refused; nothing of the new file is left.
    """
    with storing(path):
        write_whole(path, content)


def is_leftover(path: Path) -> bool:
    """Whether this is what a killed ``write_whole`` leaves behind."""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def clear_leftovers(folder: Path) -> None:
    """Remove what killed writers left; only for the one that may write there."""
    for path in folder.iterdir():
        if is_leftover(path):
            path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
