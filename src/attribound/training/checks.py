"""Checks of settings that objectives share."""

from __future__ import annotations

from attribound.basics.errors import InputError
from attribound.models.settings import is_finite


def check_positive(subject: str, value: object, remedy: str) -> None:
    """Refuse what is not a finite number above 0."""
    if not (is_finite(value) and value > 0):  # type: ignore[operator]
        expected = "a finite number above 0"
        raise InputError(subject, expected=expected, got=repr(value), remedy=remedy)
