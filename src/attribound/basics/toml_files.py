"""Settings in TOML."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.limits import read_text

_toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def read_toml(path: str | Path) -> dict[str, Any]:
    """The document in a TOML file; of ``file.toml#name`` the table of that name.

    Raises:
        InputError: there is no such file or table, or it is not TOML.
    """
    whole = Path(path).exists() or ".toml#" not in str(path)
    file, _, table = (str(path), "", "") if whole else str(path).rpartition("#")
    document = _document(file)
    if whole:
        return document
    if not isinstance(document.get(table), dict):
        tables = sorted(name for name, value in document.items() if isinstance(value, dict))
        raise InputError(
            str(path),
            expected=f"the name of a table in {file}",
            got=repr(table),
            remedy=f"it has {', '.join(tables) or 'no tables'}",
        )
    found: dict[str, Any] = document[table]
    return found


def _document(path: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = _toml.loads(read_text(Path(path)))
    except InputError:
        raise
    except (OSError, UnicodeDecodeError, RecursionError, _toml.TOMLDecodeError) as error:
        raise InputError(
            str(path),
            expected="a TOML file",
            got=f"{type(error).__name__}: {error}",
            remedy="check path and syntax",
        ) from error
    return document


def toml_value(text: str) -> object:
    """A value as TOML has it, or the text itself: a name needs no quotes.

    >>> toml_value("[1, 2]"), toml_value("adam")
    ([1, 2], 'adam')
    """
    try:
        value: object = _toml.loads(f"value = {text}")["value"]
    except (RecursionError, _toml.TOMLDecodeError):
        return text
    return value
