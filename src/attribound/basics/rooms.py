"""The rooms of the house whose classes and claims enter themselves into a registry."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

_rooms: tuple[str, ...] = ()


def announce(*rooms: str) -> None:
    """Say which modules have to be imported before a registry knows all of the library.

    Those that others rest on come first.
    """
    global _rooms  # noqa: PLW0603 - said once, by the package itself
    _rooms = rooms


def open_all() -> None:
    """Import them, so that no answer of a registry depends on what was imported before."""
    for room in _rooms:
        importlib.import_module(room)


def search(ask: Callable[[], Answer | None]) -> Answer | None:
    """The first answer that is not None; until there is one, a room more is opened.

    What is found in a low room leaves the others closed: a bound needs no audits.
    """
    for room in _rooms:
        if (found := ask()) is not None:
            return found
        importlib.import_module(room)
    return ask()
