"""Whose word code is run on: what a file names is imported only where someone trusts it.

``module:name`` in a configuration, a run or a calibration is code: importing the module runs
it, and a factory is called. A program that writes such a name itself is trusted, and so is a
user who writes it on the command line. A file is not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

from attribound.basics.errors import InputError

#: What the user wrote himself, where files are read; None where there are no files in between.
_said: ContextVar[tuple[str, ...] | None] = ContextVar("said", default=None)
#: Files are trusted, too.
_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


@contextmanager
def only_said(words: Iterable[str]) -> Iterator[None]:
    """Inside, code is imported only if one of ``words`` names it, or after :func:`trust`."""
    before, trusted = _said.set(tuple(words)), _trusted.set(False)
    try:
        yield
    finally:
        _trusted.reset(trusted)
        _said.reset(before)


def trust() -> None:
    """Import what files name, too, until the :func:`only_said` around it ends."""
    _trusted.set(True)


@contextmanager
def from_file() -> Iterator[None]:
    """Inside, what is read comes from a file: as in :func:`only_said`, with its words if any."""
    if _said.get() is not None:
        yield
        return
    with only_said(()):
        yield


def refuse_unsaid(name: str) -> None:
    """Refuse code that only a file names.

    Raises:
        InputError: nobody but a file said ``name``, and the file is not trusted.
    """
    words = _said.get()
    whole = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])")
    if words is None or _trusted.get() or any(whole.search(word) for word in words):
        return
    raise InputError(
        f"{name} in a file",
        expected="code that you name yourself",
        got="a name in a file alone, which was not imported: it would run as you",
        remedy=f"give {name} on the command line (in Python: import its module first), or add "
        "--trust if you trust the file as you would a program",
    )


def already_there(module: str, attribute: str) -> Any:
    """``attribute`` of a module that the program has imported; None if it has not."""
    found = sys.modules.get(module)
    return reduce(lambda thing, name: getattr(thing, name, None), attribute.split("."), found)
