"""Where data lies: find an official file, or fetch it into the data directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from attribound.basics.errors import InputError
from attribound.data.download import fetch
from attribound.data.registry import Official


def data_directory(root: str | Path | None = None) -> Path:
    """``root``, else ``ATTRIBOUND_DATA``, else ``data`` in the platform's cache directory."""
    chosen = root or os.environ.get("ATTRIBOUND_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return user_cache_path("attribound", appauthor=False) / "data"


def obtain(
    file: Official, folder: Path, *, installed: Sequence[Path] = (), download: bool = True
) -> Path:
    """``file``, from ``folder``, from where it is ``installed``, or downloaded into ``folder``.

    A ``.gz`` file may lie there uncompressed.

    Raises:
        InputError: it is nowhere and cannot be fetched; the message says what to put where.
    """
    for place in (folder, *installed):
        for name in (file.name, file.name.removesuffix(".gz")):
            if (place / name).is_file():
                return place / name
    if not download:
        raise missing(file, folder, "no such file")
    try:
        return fetch(file, folder)
    except OSError as error:
        raise missing(file, folder, f"no such file, and no download: {error}") from error


def missing(file: Official, folder: Path, got: str) -> InputError:
    """The error that says which file to put where."""
    return InputError(
        folder.name,
        expected=f"{file.name} in {folder}",
        got=got,
        remedy=f"fetch {' or '.join(file.urls)} and put it in {folder}, or set ATTRIBOUND_DATA "
        f"(or root=) to the directory that has {folder.name}/{file.name}",
    )
