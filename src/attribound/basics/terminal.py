"""What reaches a terminal: names from files can't move its cursor or turn its lines around."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: Control characters but tab and line feed, lone surrogates, separators of lines, and marks
#: that change the direction in which text is shown.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""``text`` with an escape in place of every character that a terminal would obey.

    >>> printable("a\x1b[2Jb\u202ec")
    'a\\x1b[2Jb\\u202ec'
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def visible(page: str) -> str:
    r"""The same for a page, with escapes that JSON and scripts in it understand, too.

    >>> visible("a\x9bb\u202ec")
    'a\\u009bb\\u202ec'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", page)


def terminal(*, wide: int | None = None, stderr: bool = False) -> Console:
    """A console that shows names from anywhere, ``wide`` where there is no width to fit."""
    from rich.console import Console  # noqa: PLC0415 - only commands that print tables need it

    class Careful(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else printable(segment.text)
                yield segment._replace(text=text)

    shown = Careful(stderr=stderr)
    return shown if wide is None or shown.is_terminal else Careful(stderr=stderr, width=wide)
