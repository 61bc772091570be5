"""Files that try to run code when they are loaded, and what they would leave behind."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.marker),)


def pickled(marker: Path) -> bytes:
    return pickle.dumps(Bomb(marker))


def rewritten(
    source: Path, target: Path, change: Callable[[str, bytes], bytes | None], **new: bytes
) -> Path:
    """A copy of an archive: members changed (None leaves one out), others added to its root."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as archive:
        for info in old.infolist():
            root, _, name = info.filename.partition("/")
            content = change(name, old.read(info))
            if content is not None:
                archive.writestr(f"{root}/{name}", content)
        for name, content in new.items():
            archive.writestr(f"{root}/{name}", content)
    return target
