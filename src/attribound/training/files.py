"""Files that are whole or not there, whatever happens to the process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from attribound.errors import InputError


def write_json(path: Path, document: object) -> None:
    """Write JSON beside ``path``, wait until it is on the disk, and move it there."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("x", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """What ``write_json`` wrote.

    Raises:
        InputError: the file is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            str(path),
            expected="JSON, as a training writes it",
            got=str(error),
            remedy="the file was damaged: restore it, or train anew in another directory",
        ) from error


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
