"""Files that are whole or not there, whatever happens to the process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

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
