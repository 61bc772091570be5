"""Recognise values that are not of this library, as models are recognised."""

from __future__ import annotations

import hashlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

from attribound.values.fields import settings
from attribound.values.registry import name_of
from attribound.values.value import Value

_OWN = __name__.partition(".")[0]


def fingerprints(*values: object) -> dict[str, str]:
    """``sha256:...`` of the code of every class and function in ``values`` that is a user's own.

    Of a module with a file it is the file's; elsewhere, as in notebooks, that of the compiled
    functions. What is imported there from other modules is not looked at.
    """
    return {name: _digest(thing) for value in values for name, thing in _foreign(value)}


def _foreign(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Value):
        if not _ours(type(value)):
            yield name_of(type(value)), type(value)
        for each in settings(type(value)):
            yield from _foreign(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _foreign(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _foreign(item)
    elif isinstance(value, types.FunctionType) and not _ours(value):
        yield f"{value.__module__}:{value.__qualname__}", value


def _ours(thing: type | types.FunctionType) -> bool:
    return thing.__module__.partition(".")[0] == _OWN


def _digest(thing: object) -> str:
    module = sys.modules.get(str(getattr(thing, "__module__", "")))
    file = getattr(module, "__file__", None)
    if file and Path(file).is_file():
        return f"sha256:{hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
    digest = hashlib.sha256()
    for code in sorted(_code(thing), key=lambda each: each.co_name):
        digest.update(repr(_compiled(code)).encode())
    return f"sha256:{digest.hexdigest()}"


def _compiled(code: types.CodeType) -> tuple[object, ...]:
    """What a function does, with the functions inside it; the same in every process."""
    constants = [
        _compiled(each)
        if inspect.iscode(each)
        else sorted(map(repr, each))  # sets have another order in another process
        if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]
    return code.co_name, code.co_code, code.co_names, constants


def _code(thing: object) -> Iterator[types.CodeType]:
    if isinstance(thing, types.FunctionType):
        yield thing.__code__
    elif isinstance(thing, type):
        for each in vars(thing).values():
            inner = each.fget if isinstance(each, property) else each
            inner = getattr(inner, "__func__", inner)
            if isinstance(inner, types.FunctionType):
                yield inner.__code__
