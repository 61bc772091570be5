"""Checks of numbers and choices in settings."""

from __future__ import annotations

import math
from typing import TypeGuard

from attribound.basics.errors import InputError


def is_finite(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: object) -> TypeGuard[int]:
    """Whether ``value`` is a whole number of 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def refuse_other(subject: str, value: object, kind: type, remedy: str) -> None:
    """Refuse what is no ``kind``."""
    if not isinstance(value, kind):
        got = " ".join(repr(value).split())[:80]
        raise InputError(subject, expected=f"one of {kind.__name__}", got=got, remedy=remedy)


def check_whole(subject: str, value: object, least: int, remedy: str) -> None:
    """Refuse what is not a whole number of ``least`` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        expected = f"a whole number, {least} or more"
        raise InputError(subject, expected=expected, got=repr(value), remedy=remedy)


def check_count(subject: str, value: object, remedy: str) -> None:
    """Refuse what is not a whole number of 1 or more."""
    if not is_count(value):
        expected = "a whole number, 1 or more"
        raise InputError(subject, expected=expected, got=repr(value), remedy=remedy)


def check_positive(subject: str, value: object, remedy: str) -> None:
    """Refuse what is not a finite number above 0."""
    if not (is_finite(value) and value > 0):
        expected = "a finite number above 0"
        raise InputError(subject, expected=expected, got=repr(value), remedy=remedy)


def check_least(subject: str, value: float, least: int) -> None:
    """Refuse what is not a finite number of ``least`` or more."""
    if not (is_finite(value) and value >= least):
        raise InputError(
            subject,
            expected=f"a finite number, {least} or more",
            got=repr(value),
            remedy="correct this setting",
        )


def check_fraction(subject: str, value: float) -> None:
    """Refuse what is not a number strictly between 0 and 1."""
    if not (is_finite(value) and 0 < value < 1):
        raise InputError(
            subject,
            expected="a number between 0 and 1",
            got=repr(value),
            remedy="correct this setting",
        )


def check_choice(subject: str, value: object, choices: tuple[str, ...], remedy: str) -> None:
    """Refuse a ``value`` that is none of ``choices``."""
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise InputError(subject, expected=expected, got=repr(value), remedy=remedy)
