"""Settings in TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from attribound.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: str | Path) -> dict[str, Any]:
    """The document in a TOML file.

    Raises:
        InputError: there is no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            str(path),
            expected="a TOML file",
            got=f"{type(error).__name__}: {error}",
            remedy="check path and syntax",
        ) from error


def toml_value(text: str) -> object:
    """A value as TOML has it, or the text itself: a name needs no quotes.

    >>> toml_value("[1, 2]"), toml_value("adam")
    ([1, 2], 'adam')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
