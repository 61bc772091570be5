"""Small models together in one file: a zip archive of cards and weights, beside the others."""

from __future__ import annotations

import functools
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_cache_path

from attribound.basics.whole_files import sha256_of, write_whole

#: The date of every member, so that the same models make the same archive.
_DATE = (1980, 1, 1, 0, 0, 0)


def contents(place: Path) -> dict[str, Path]:
    """The archive of each file that a directory has packed, by its name: ``data/model.json``."""
    found: dict[str, Path] = {}
    for pack in sorted(place.glob("[!.]*.zip")):
        with zipfile.ZipFile(pack) as archive:
            found |= dict.fromkeys(archive.namelist(), pack)
    return found


def unpacked(pack: Path, name: str) -> Path:
    """A member of an archive as a file: in the platform's cache, else in a temporary directory.

    Only what the archive lists under exactly this name is written, under that of the archive's
    checksum: another version of it has other files.
    """
    with zipfile.ZipFile(pack) as archive:
        content = archive.read(name)
    for place in (_cache, _temporary):
        file = place() / sha256_of(pack)[:16] / name
        try:
            if not file.is_file() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, content)
        except OSError:  # a home that is not there, or read-only
            continue
        return file
    raise OSError(f"{pack.name}: neither the cache nor the temporary directory can be written")


def is_unpacked(file: Path) -> bool:
    """Whether a file is a copy of what is packed: changing it changes no model."""
    return any(file.is_relative_to(place()) for place in (_cache, _temporary))


def pack(folder: Path, names: Iterable[str], archive: Path) -> None:
    """Put the cards and weights of the models ``names`` of a folder into an archive."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for name in sorted(names):
            for ending in (".json", ".safetensors"):
                member = zipfile.ZipInfo(f"{name}{ending}", _DATE)
                member.compress_type = zipfile.ZIP_DEFLATED
                made.writestr(member, (folder / f"{name}{ending}").read_bytes())


def _cache() -> Path:
    return user_cache_path("attribound", appauthor=False) / "unpacked"


@functools.cache
def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="attribound-"))
