"""The errors of this library: all of them are ``ValueError``s that name a remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attribound.basics.terminal import printable

if TYPE_CHECKING:
    from typing_extensions import Self

_PATH = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z0-9_]+)*")
_LONGEST = 1000  # characters of what came
_CLASS = re.compile(r"[A-Z]\w*")


class AttriboundError(ValueError):
    """Something given to attribound cannot be used; the message says what to do."""

    def __init__(self, subject: str, *, expected: str, got: str, remedy: str) -> None:
        got = _one_line(got)
        super().__init__(printable(f"{subject}: expected {expected}, got {got}; {remedy}"))
        self._parts = (subject, expected, got, remedy)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, so that worker processes can report it."""
        return _rebuild, (type(self), *self._parts)

    def inside(self, place: str) -> Self:
        """The same error, told of something at ``place`` of something larger.

        >>> str(InputError("lr", expected="more", got="0", remedy="use 1").inside("optimiser"))
        'optimiser.lr: expected more, got 0; use 1'
        """
        subject, expected, got, remedy = self._parts
        if _CLASS.fullmatch(subject):  # what is at that place is of no use as a whole
            subject = place
        else:
            subject = f"{place}.{subject}" if _PATH.fullmatch(subject) else f"{place}: {subject}"
        return type(self)(subject, expected=expected, got=got, remedy=remedy)

    def naming(self, what: str, options: str) -> Self:
        """The same error, whose remedy names ``options`` of whoever called in place of ``what``.

        >>> error = InputError("x", expected="one size", got="two", remedy="pass size=")
        >>> str(error.naming("pass size=", "add --set size=128"))
        'x: expected one size, got two; add --set size=128'
        """
        subject, expected, got, remedy = self._parts
        remedy = remedy.replace(what, options)
        return type(self)(subject, expected=expected, got=got, remedy=remedy)


class InputError(AttriboundError):
    """An input, a label, a ball or a setting is unusable."""


class ModelError(AttriboundError):
    """The model or the attribution function is unusable."""


class KinkError(ModelError):
    """The model is not smooth, so that no bound of this library applies to it."""


class ProbeError(ModelError):
    """Measured on the data at hand, the model or function is not what it must be."""


class MemoryLimitError(AttriboundError):
    """The computation would need more memory than its limit allows."""


def _one_line(got: str) -> str:
    """What came, in one line: networks and tables print themselves in many."""
    line = re.sub(r"\s*\n\s*", " ", got)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _rebuild(
    kind: type[AttriboundError], subject: str, expected: str, got: str, remedy: str
) -> AttriboundError:
    return kind(subject, expected=expected, got=got, remedy=remedy)
