"""Where models lie: in the package, in attribound-zoo, with the user, in a source checkout."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from platformdirs import user_cache_path

from attribound.zoo.packs import contents, unpacked

PACKAGED = Path(__file__).parent / "models"


def places() -> tuple[Path, ...]:
    """The directories searched, first to last; those of the user need not exist.

    The package's own come first, so that no directory can replace a model under
    its name.
    """
    found = [PACKAGED, *_second_package()]
    chosen = os.environ.get("ATTRIBOUND_ZOO")
    if chosen:
        found.append(Path(chosen).expanduser())
    found.append(cache_directory())
    checkout = PACKAGED.parent.parent.parent.parent  # .../src/attribound/zoo/models
    if (checkout / "pyproject.toml").is_file():
        found.append(checkout / "zoo" / "models")
    return tuple(found)


def _second_package() -> list[Path]:
    """The models of the distribution ``attribound-zoo``, if it is installed: it is data alone."""
    spec = importlib.util.find_spec("attribound_zoo")
    folders = (spec.submodule_search_locations or []) if spec else []
    return [Path(folder) / "models" for folder in folders]


def shipped_directory() -> Path:
    """That of the package itself."""
    return PACKAGED


def cache_directory() -> Path:
    """``zoo`` in the platform's cache directory."""
    return user_cache_path("attribound", appauthor=False) / "zoo"


def own_directory() -> Path:
    """Where a user's files go: ``ATTRIBOUND_ZOO``, else the platform's cache directory."""
    chosen = os.environ.get("ATTRIBOUND_ZOO")
    if chosen:
        return Path(chosen).expanduser()
    return cache_directory()


def find(file: str) -> Path | None:
    """The first place's ``file``, unpacked if it is in an archive; None if no place has it."""
    for place in places():
        if (place / file).is_file():
            return place / file
        if archive := contents(place).get(file):
            return unpacked(archive, file)
    return None
