"""Values as short texts, for tables and command lines."""

from __future__ import annotations

from collections.abc import Mapping

from attribound.values.value import to_spec

_SHOWN = 40  # characters of a list or tensor in a name for people


def to_text(value: object) -> str:
    """A value as a text that :func:`from_spec` reads; lists of many numbers are cut short.

    >>> from attribound.attributions import IntegratedGradients
    >>> to_text(IntegratedGradients(steps=50))
    'ig:steps=50'
    """
    return spec_text(to_spec(value))


def spec_text(plain: object, *, inside: bool = False) -> str:
    """Plain data of a value as a short text."""
    if isinstance(plain, Mapping):
        own = [
            f"{key}={spec_text(value, inside=True)}"
            for key, value in plain.items()
            if key != "kind"
        ]
        head = str(plain.get("kind", ""))
        text = ":".join(filter(None, [head, ",".join(own)]))
        return f"({text})" if inside and own else text
    if isinstance(plain, list):
        text = f"({','.join(spec_text(item, inside=True) for item in plain)})"
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...)"
    return str(plain).lower() if plain is None or isinstance(plain, bool) else str(plain)
