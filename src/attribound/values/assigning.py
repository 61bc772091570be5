"""Settings changed by their path: ``optimiser.lr=0.002``, ``attributions.0.steps=50``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attribound.basics.errors import InputError
from attribound.basics.toml_files import toml_value
from attribound.values.parsing import parse_text


def changed(document: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """``document`` with settings of the form ``PATH=VALUE`` put in.

    Values are TOML or JSON, or texts as they stand; numbers in a path count the items of a list. A
    text on the way, such as ``"ig"``, becomes the table it stands for.

    >>> changed({"attributions": ["ig"]}, ["attributions.0.steps=50", "batch=8"])
    {'attributions': [{'kind': 'ig', 'steps': 50}], 'batch': 8}
    """
    result: dict[str, Any] = json.loads(json.dumps(document))
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise InputError(
                f"--set {setting}",
                expected="PATH=VALUE",
                got=repr(setting),
                remedy="use e.g. --set batch=32 or --set optimiser.lr=0.002",
            )
        place: Any = result
        for key in keys[:-1]:
            place = _enter(place, key, setting)
        _put(place, keys[-1], _value(text.strip()), setting)
    return result


def _enter(place: Any, key: str, setting: str) -> Any:
    """The table or list at ``key``, made one if it is a text or not there."""
    inner = place[_index(place, key, setting)] if isinstance(place, list) else place.get(key)
    if inner is None:
        inner = {}
    elif isinstance(inner, str):
        inner = parse_text(inner)
    elif not isinstance(inner, (dict, list)):
        raise InputError(
            f"--set {setting}",
            expected=f"settings inside {key}",
            got=repr(inner),
            remedy="give it whole, or shorten the path",
        )
    _put(place, key, inner, setting)
    return inner


def _put(place: Any, key: str, value: Any, setting: str) -> None:
    if isinstance(place, list):
        place[_index(place, key, setting)] = value
    else:
        place[key] = value


def _index(place: list[Any], key: str, setting: str) -> int:
    if not key.isdigit() or int(key) >= len(place):
        raise InputError(
            f"--set {setting}",
            expected=f"a number below {len(place)} in place of {key!r}",
            got=repr(key),
            remedy="items of a list are counted from 0",
        )
    return int(key)


def _value(text: str) -> Any:
    value = toml_value(text)
    if value == text and text[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return value
