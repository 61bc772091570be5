"""Short texts as plain data: ``ig:steps=50,quadrature=midpoint``, ``my.balls:Frozen:epsilon=0.1``.

A value inside a value stands in brackets if it has settings of its own:
``ifia:objective=(top_k:k=50)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.toml_files import toml_value
from attribound.values.registry import FOREIGN, is_registered

_DEEPEST = 32


def parse_text(text: str) -> dict[str, Any]:
    """``name:key=value,...`` as plain data, with the name under ``kind``."""
    deepest = max(accumulate((each in "([{") - (each in ")]}") for each in text), default=0)
    if deepest > _DEEPEST:
        raise InputError(
            f"{text[:20]}...",
            expected=f"brackets within brackets at most {_DEEPEST} deep",
            got=str(deepest),
            remedy="no value is nested so deeply: check the text",
        )
    head, options = _head(text.strip())
    return {"kind": head, **_settings(options, text)}


def _settings(options: str, text: str) -> dict[str, Any]:
    """``key=value,...`` as plain data; ``text`` is what they stand in."""
    found: dict[str, Any] = {}
    for part in _split(options):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(
                text,
                expected="settings as KEY=VALUE with commas between them",
                got=repr(part),
                remedy="write e.g. ig:steps=50,quadrature=midpoint",
            )
        found[key.strip()] = _value(value.strip())
    return found


def _head(text: str) -> tuple[str, str]:
    name, _, options = text.partition(":")
    if is_registered(name):
        return name, options
    foreign = FOREIGN.match(text)
    # ``igg:steps=50`` is a name misspelt, ``my.balls:Frozen:epsilon=0.1`` a class of a module.
    if foreign is None or text[foreign.end() :][:1] not in ("", ":"):
        return name, options
    return foreign[0], text[foreign.end() + 1 :]


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]


def _value(text: str) -> Any:
    """In brackets a value with settings, settings alone, or a list; else as TOML has it."""
    if not (text.startswith("(") and text.endswith(")")):
        return toml_value(text)
    inner = text[1:-1].strip()
    first = next((each for each in _outside(inner) if each in ":=,"), ",")
    if first == ":":
        return parse_text(inner)
    if first == "=":
        return _settings(inner, text)
    return [_value(part.strip()) for part in _split(inner)]


def _outside(text: str) -> Iterator[str]:
    """The characters that are in no brackets."""
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            yield character
