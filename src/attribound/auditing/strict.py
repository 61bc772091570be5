"""Settings as frozen dataclasses that pydantic reads strictly: unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from attribound.basics.errors import InputError

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Strict:
    """Base of all settings."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


def parse(kind: type[Kind], document: Mapping[str, Any], subject: str) -> Kind:
    """``document`` as settings of that kind.

    Raises:
        InputError: names every key that is unknown, missing or has a wrong value.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(document))
    except ValidationError as error:
        faults = [_fault(dict(each)) for each in error.errors(include_url=False)]
        raise InputError(
            subject,
            expected=f"the keys and values of {kind.__name__}",
            got="; ".join(faults),
            remedy="mend these; attribound.auditing.settings documents every setting",
        ) from error


def _fault(error: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "settings"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def check(name: str, value: object, ok: bool, expected: str, remedy: str) -> None:
    """Refuse a setting with a value that makes no sense."""
    if not ok:
        raise InputError(name, expected=expected, got=repr(value), remedy=remedy)
