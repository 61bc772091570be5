"""The data sets and checkpoints next to the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(*parts: str) -> Path:
    """A file or folder of the shared data; without it the test is skipped, in CI it fails."""
    path = Path(os.environ.get("ATTRIBOUND_DATA") or BESIDE).joinpath(*parts)
    return needed(path, "set ATTRIBOUND_DATA to the folder of the shared data")


def needed(path: Path, remedy: str) -> Path:
    """``path``, if it is there; else the test is skipped, in CI it fails."""
    if not path.exists():
        reason = f"{path} is missing; {remedy}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
