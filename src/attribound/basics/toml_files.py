"""Settings in TOML."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.limits import read_text

#: What a key with dots is made of, and how many parts no setting's has.
_KEYS, _MOST_PARTS = re.compile(r"[\w.\"' \t-]+"), 64
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
        text = read_text(Path(path))
        _refuse_deep(path, text)
        document: dict[str, Any] = _toml.loads(text)
    except InputError:
        raise
    except (OSError, ValueError, RecursionError) as error:  # no TOML, no text, a number too long
        raise InputError(
            str(path),
            expected="a TOML file",
            got=f"{type(error).__name__}: {error}",
            remedy="check path and syntax",
        ) from error
    return document


def _refuse_deep(path: str, text: str) -> None:
    """Refuse keys of very many parts, whose tables take the square of that in memory."""
    deepest = max((each[0].count(".") for each in _KEYS.finditer(text)), default=0)
    if deepest >= _MOST_PARTS:
        raise InputError(
            path,
            expected=f"keys of at most {_MOST_PARTS} parts",
            got=f"{deepest + 1}, with dots between them",
            remedy="check what it is: no settings are nested so deeply",
        )


def toml_value(text: str) -> object:
    """A value as TOML has it, or the text itself: a name needs no quotes.

    >>> toml_value("[1, 2]"), toml_value("adam")
    ([1, 2], 'adam')
    """
    try:
        value: object = _toml.loads(f"value = {text}")["value"]
    except (RecursionError, ValueError):
        return text
    return value
