"""Checks of numbers in the settings of a training."""

from __future__ import annotations

from attribound.basics.errors import InputError
from attribound.models.settings import is_finite


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
