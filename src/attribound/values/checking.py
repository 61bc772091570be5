"""Settings from plain data, checked by pydantic."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.values.fields import default, settings
from attribound.values.registry import FOREIGN, imported, name_of


def checked(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of ``kind`` in a document, converted and checked by pydantic.

    Raises:
        InputError: names every key that is unknown, missing or has a wrong value.
    """
    pydantic = _pydantic()
    hints = _hints(kind)
    mended = {
        str(key): _mended(value, hints[str(key)]) if str(key) in hints else value
        for key, value in document.items()
    }
    try:
        read = _model(kind).model_validate(mended)
    except pydantic.ValidationError as error:
        faults = [_fault(kind, each) for each in _by_setting(error.errors(include_url=False))]
        raise faults[0] if len(faults) == 1 else _several(kind, faults) from error
    return {name: getattr(read, name) for name in read.model_fields_set}


def _mended(value: Any, hint: Any) -> Any:
    """What JSON, TOML and command lines can't say: None, infinity, tuples, tensors."""
    leaves = _leaves(hint)
    if isinstance(value, str):
        function = FOREIGN.fullmatch(value)
        if function and any(typing.get_origin(leaf) is Callable for leaf in leaves):
            return imported(*function.groups())
        if value == "none" and type(None) in leaves and not _is_text(value, leaves):
            return None
        if value in ("inf", "-inf") and float in leaves:
            return float(value)
    if Tensor in leaves:
        value = _tensor(value)
    return _tuples(value)


def _tensor(value: Any) -> Any:
    """A tensor from what ``to_spec`` made of it; anything else as it is."""
    try:
        if isinstance(value, Mapping) and set(value) == {"dtype", "values"}:
            dtype = getattr(torch, str(value["dtype"]))
            return torch.tensor(_numbers(value["values"]), dtype=dtype)
        if isinstance(value, (list, tuple)):
            numbers = _numbers(value)
            tensor = torch.tensor(numbers)
            floating = tensor.is_floating_point()
            return torch.tensor(numbers, dtype=torch.float64) if floating else tensor
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return value
    return value


def _numbers(value: Any) -> Any:
    """``value`` with infinities as numbers, which JSON writes as texts."""
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


def _is_text(value: str, leaves: set[Any]) -> bool:
    """Whether a text may stand as it is: where any may, or this one."""
    choices = {
        choice
        for leaf in leaves
        if typing.get_origin(leaf) is typing.Literal
        for choice in typing.get_args(leaf)
    }
    return str in leaves or value in choices


def _tuples(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(item) for item in value)
    return value


def _leaves(hint: Any) -> set[Any]:
    """The types of a union; the type itself if it is none."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return {leaf for part in typing.get_args(hint) for leaf in _leaves(part)}
    return {hint}


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in settings(kind)}


@functools.cache
def _model(kind: type) -> Any:
    """A pydantic model with the settings of a dataclass."""
    pydantic = _pydantic()
    hints = _hints(kind)
    required = {each.name: default(each) is MISSING for each in settings(kind)}
    return pydantic.create_model(
        kind.__name__,
        __config__=pydantic.ConfigDict(
            extra="forbid", strict=True, arbitrary_types_allowed=True, protected_namespaces=()
        ),
        **{name: (hints[name], ... if must else None) for name, must in required.items()},
    )


def _by_setting(errors: list[Any]) -> list[list[Any]]:
    """Complaints together that are about one thing: none of several types takes it."""
    found: list[list[Any]] = []
    for error in errors:
        last = found[-1][0] if found else None
        if last and last["loc"][0] == error["loc"][0] and last["input"] is error["input"]:
            found[-1].append(error)
        else:
            found.append([error])
    return found


def _fault(kind: type, errors: list[Any]) -> InputError:
    """Pydantic's complaints about a setting as one error; one from inside it as it was there."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"][: 1 if len(errors) > 1 else None])
    causes = [each["ctx"]["error"] for each in errors if each["type"] == "value_error"]
    for cause in causes:
        if isinstance(cause, InputError):
            return cause.inside(where)
    if first["type"] == "extra_forbidden":
        known = ", ".join(each.name for each in settings(kind)) or "none"
        expected = f"only settings of {name_of(kind)}: {known}"
        return InputError(where, expected=expected, got=repr(where), remedy="remove or correct it")
    if first["type"] == "missing":
        return InputError(where, expected="a value", got="nothing", remedy="it has no default")
    wanted = [each["msg"].removeprefix("Input should be ") for each in errors]
    got = repr(first["input"])
    return InputError(where, expected=" or ".join(wanted), got=got, remedy="correct it")


def _several(kind: type, faults: list[InputError]) -> InputError:
    return InputError(
        f"settings of {name_of(kind)}",
        expected="usable settings",
        got=" | ".join(map(str, faults)),
        remedy="mend all of these",
    )


@functools.cache
def _pydantic() -> Any:
    # Loaded when settings are read from data: bounds do without it, and it takes a while.
    import pydantic  # noqa: PLC0415

    return pydantic
