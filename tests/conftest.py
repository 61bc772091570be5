"""A disk that is quickly full, for tests of several rooms."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB; skipped where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        reason = "no tmpfs may be mounted here: needs root"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
