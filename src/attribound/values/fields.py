"""Which fields of a dataclass are settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

#: Metadata of a field that is no setting: what a value is used on, or how it shows progress.
NO_SETTING: Mapping[str, bool] = {"attribound.setting": False}


def settings(kind: type) -> Iterator[Field[Any]]:
    """The fields of a value's class that are settings."""
    for each in fields(kind):
        if each.init and each.metadata.get("attribound.setting", True):
            yield each


def default(field: Field[Any]) -> object:
    """What a field has if it is left out; ``MISSING`` if it must be given."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
