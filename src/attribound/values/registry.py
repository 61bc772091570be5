"""Short names of values."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, TypeVar

from attribound.basics import rooms
from attribound.basics.errors import InputError
from attribound.basics.trusting import refuse_unsaid

Kind = TypeVar("Kind", bound=type)

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
FOREIGN = re.compile(rf"({_DOTTED}):({_DOTTED})")
_NAME = re.compile(r"[a-z][a-z0-9_+-]*")
_named: dict[str, type] = {}
_names: dict[type, str] = {}


def register(name: str) -> Callable[[Kind], Kind]:
    """Give a class of values a short name, e.g. ``@register("ig")``.

    Raises:
        InputError: another class has it.
    """

    def enter(kind: Kind) -> Kind:
        if not _NAME.fullmatch(name):
            raise InputError(
                "name of a value",
                expected="lower-case letters, digits and underscores",
                got=repr(name),
                remedy="use e.g. grad_cam",
            )
        if not _ours(kind):  # then the library's own names are taken, imported or not
            rooms.open_all()
        other = _named.get(name)
        # A module that is loaded again, as notebooks do, brings the same class anew.
        if other is not None and _place(other) != _place(kind):
            raise InputError(
                "name of a value",
                expected="one that is free",
                got=f"{name!r}, which is {_place(other)}",
                remedy="choose another",
            )
        _named[name] = kind
        _names[kind] = name
        return kind

    return enter


def names(kind: type = object) -> tuple[str, ...]:
    """The short names of all registered values of that kind, in the order of the alphabet.

    The library's own are among them whether their modules were imported before or not.
    """
    rooms.open_all()
    return tuple(sorted(name for name, each in _named.items() if issubclass(each, kind)))


def name_of(kind: type) -> str:
    """The short name of a class of this library, ``module:Class`` of any other.

    What is stored must be found again by a process that has not imported a user's module yet.
    A record, which needs no name to be found, is called ``Class``.
    """
    if not getattr(kind, "kinded", True):
        return kind.__name__
    return _names.get(kind, _place(kind)) if _ours(kind) else _place(kind)


def class_of(name: str, kind: type) -> Any:
    """The class of values of that kind that is registered as ``name``."""
    wanted = name.replace("-", "_")
    found = _entered(name)
    if found is None or not issubclass(found, kind):
        near = difflib.get_close_matches(wanted, names(kind), n=2)
        raise InputError(
            kind.__name__,
            expected=f"one of {', '.join(names(kind))}, or MODULE:CLASS of your own",
            got=repr(name),
            remedy=f"did you mean {' or '.join(near)}?"
            if near
            else "settings follow a colon, e.g. name:setting=3",
        )
    return found


def is_registered(name: str) -> bool:
    """Whether some value has this short name."""
    return _entered(name) is not None


def _entered(name: str) -> type | None:
    """The class of that name, looked for in rooms that are not open yet, too."""
    return rooms.search(lambda: _named.get(name) or _named.get(name.replace("-", "_")))


def imported(module: str, attribute: str) -> Any:
    """``attribute`` of a module, which is looked for in the current directory first.

    Raises:
        InputError: there is none, or only a file named it that nobody trusts.
    """
    refuse_unsaid(f"{module}:{attribute}")
    with current_directory_first():
        try:
            found = importlib.import_module(module)
        # Importing runs the user's code, which may fail in any way.
        except Exception as error:
            raise InputError(
                module,
                expected="a module that can be imported",
                got=f"{type(error).__name__}: {error}",
                remedy=f"run it where `python -c 'import {module}'` works",
            ) from error
    try:
        return reduce(getattr, attribute.split("."), found)
    except AttributeError as error:
        raise InputError(
            f"{module}:{attribute}",
            expected="the name of a function or class in the module",
            got=str(error),
            remedy="check the spelling",
        ) from error


@contextmanager
def current_directory_first() -> Iterator[None]:
    """Look for modules in the current directory first, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before


def _ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _place(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
