"""Of which network a number speaks: the one people run, or a smooth copy of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from attribound.results.subject import YOURS, copy_title

_MARK = "_attribound_copy_of"  # private: fingerprints and state dicts do not see it


@dataclass(frozen=True, eq=False)
class CopyOf:
    """What a smooth copy was made of.

    Attributes:
        original: the network itself; no submodule of the copy.
        beta: the sharpness of the copy.
    """

    original: nn.Module
    beta: float


def mark_copy(copy: nn.Module, model: nn.Module, beta: float) -> None:
    """Remember that ``copy`` is a smooth copy of ``model``, or of what that is a copy of."""
    copy.__dict__[_MARK] = CopyOf(original_of(model), beta)


def unmark(copy: nn.Module) -> None:
    """Forget what ``copy`` is a copy of, for one that must not keep its original alive."""
    copy.__dict__.pop(_MARK, None)


def copy_of(model: object) -> CopyOf | None:
    """What ``model`` is a smooth copy of; None if it is none."""
    found = getattr(model, "__dict__", {}).get(_MARK)
    return found if isinstance(found, CopyOf) else None


def original_of(model: nn.Module) -> nn.Module:
    """The network that ``model`` is a smooth copy of, or itself."""
    found = copy_of(model)
    return model if found is None else found.original


def subject_of(model: object) -> str:
    """Of which network numbers about ``model`` speak, for people.

    >>> subject_of(nn.Linear(1, 1))
    'your network'
    """
    found = copy_of(model)
    return YOURS if found is None else copy_title(found.beta)
