"""JSON documents of a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.whole_files import write_whole


def write_json(path: Path, document: object) -> None:
    """Write JSON beside ``path``, wait until it is on the disk, and move it there."""
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


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
