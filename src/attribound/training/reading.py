"""Configs from TOML and to JSON, with errors that name the place."""

from __future__ import annotations

import functools
import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from pydantic import TypeAdapter

from attribound.basics.errors import InputError
from attribound.basics.toml_files import toml_value
from attribound.training.config import TrainingConfig
from attribound.training.objective import Objective
from attribound.training.registry import OBJECTIVES

Table = dict[str, Any]


def read_config(table: Mapping[str, object]) -> TrainingConfig:
    """The config that a TOML document holds; what is left out takes its default.

    A text in the place of a table is its first setting: ``method = "at"``.

    Raises:
        InputError: a setting is unknown or unusable; the message names it by its path.
    """
    config: TrainingConfig = _read(TrainingConfig, table, "")
    return config


def changed(table: Mapping[str, object], settings: Sequence[str]) -> Table:
    """``table`` with settings such as ``optimiser.lr=0.002`` put in; values are TOML or texts."""
    result: Table = json.loads(json.dumps(table, default=str))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise InputError(
                f"--set {setting}",
                expected="PATH=VALUE",
                got=repr(setting),
                remedy="use e.g. --set optimiser.lr=0.002",
            )
        *tables, name = path.strip().split(".")
        place = result
        for key in tables:
            inner = place.get(key, {})
            place[key] = dict(inner) if isinstance(inner, Mapping) else {"name": inner}
            place = place[key]
        place[name] = toml_value(text.strip())
    return result


def to_json(value: object) -> Any:
    """All settings, defaults too, as JSON has them; ``read_config`` reads them back."""
    if is_dataclass(value) and not isinstance(value, type):
        name = {"name": value.name} if isinstance(value, Objective) else {}
        return name | {f.name: to_json(getattr(value, f.name)) for f in fields(value) if f.init}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _read(kind: type[Any], table: object, path: str) -> Any:
    """The dataclass ``kind`` with the settings of ``table``, which stands at ``path``."""
    named = issubclass(kind, Objective)
    known = [*(["name"] if named else []), *(f.name for f in fields(kind) if f.init)]
    settings = _table(table, path, known[0])
    if named:
        settings = {key: value for key, value in settings.items() if key != "name"}
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise InputError(
            _join(path, unknown[0]),
            expected=f"only {', '.join(known)}",
            got=repr(unknown[0]),
            remedy="remove or correct this setting",
        )
    hints = typing.get_type_hints(kind)
    defaults = {field.name: _default(field) for field in fields(kind)}
    values = {
        key: _setting(hints[key], value, _join(path, key), defaults[key])
        for key, value in settings.items()
    }
    missing = [n for n, default in defaults.items() if default is MISSING and n not in values]
    if missing:
        raise InputError(
            _join(path, missing[0]),
            expected="a value",
            got="nothing",
            remedy="this setting has no default",
        )
    return kind(**values)


def _setting(hint: Any, value: object, path: str, default: object) -> Any:
    """A value for ``hint``; a table without a name means the kind of the ``default``."""
    possible = typing.get_args(hint) or (hint,)
    choices: list[Any] = [kind for kind in possible if is_dataclass(kind) or kind is Objective]
    if not choices or (value is None and type(None) in possible):
        return _leaf(hint, value, path)
    if len(choices) == 1 and choices[0] is not Objective:
        return _read(choices[0], value, path)
    kinds = OBJECTIVES.values() if Objective in choices else choices
    by_name: dict[object, Any] = {kind.name: kind for kind in kinds}
    name = _table(value, path, "name").get("name", getattr(default, "name", None))
    if name not in by_name:
        raise InputError(
            f"{path}.name",
            expected=f"one of {', '.join(map(str, by_name))}",
            got=repr(name),
            remedy="choose one of these",
        )
    return _read(by_name[name], value, path)


def _leaf(hint: Any, value: object, path: str) -> Any:
    """A number, text or list as ``hint`` wants it, without converting texts to numbers."""
    try:
        return _adapter(hint).validate_json(json.dumps(value, default=str), strict=True)
    except ValueError as error:  # pydantic's own is one
        details: list[dict[str, str]] = getattr(error, "errors", list)()
        problem = "; ".join(sorted({detail["msg"] for detail in details})) or str(error)
        raise InputError(
            path, expected=problem, got=repr(value), remedy="correct this setting"
        ) from error


@functools.cache
def _adapter(hint: Any) -> Any:
    return TypeAdapter(hint)


def _table(value: object, path: str, first: str) -> Table:
    if isinstance(value, str) and path:
        return {first: value}
    if isinstance(value, Mapping):
        return dict(value)
    raise InputError(
        path or "config",
        expected="a table",
        got=repr(value),
        remedy=f"write [{path}] and its settings below" if path else "give a TOML document",
    )


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
