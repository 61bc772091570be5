"""The errors of this library: all of them are ``ValueError``s that name a remedy."""

from __future__ import annotations


class AttriboundError(ValueError):
    """Something given to attribound cannot be used; the message says what to do."""

    def __init__(self, subject: str, *, expected: str, got: str, remedy: str) -> None:
        super().__init__(f"{subject}: expected {expected}, got {got}; {remedy}")
        self._parts = (subject, expected, got, remedy)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, so that worker processes can report it."""
        return _rebuild, (type(self), *self._parts)


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


def _rebuild(
    kind: type[AttriboundError], subject: str, expected: str, got: str, remedy: str
) -> AttriboundError:
    return kind(subject, expected=expected, got=got, remedy=remedy)
