"""Models made by a function of the user: ``module:factory`` with weights from a file."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attribound.auditing.sources.loaded import LoadedModel, file_details, loaded
from attribound.auditing.sources.weights import load_weights
from attribound.basics.errors import InputError, ModelError
from attribound.values.registry import FOREIGN, current_directory_first, imported

_SPEC = re.compile(rf"{FOREIGN.pattern}(?:\?(.*))?", re.DOTALL)


def is_factory(spec: str) -> bool:
    """Whether ``spec`` is of the form ``module:factory`` or ``module:factory?{...}``."""
    return _SPEC.fullmatch(spec) is not None


def load_factory(spec: str, weights: str | None) -> LoadedModel:
    """What the factory makes, with ``weights`` in it if there are any.

    The current directory is searched for the module first, as ``python -m`` does. Random
    numbers are drawn from seed 0, so that every process makes the same network.
    """
    match = _SPEC.fullmatch(spec)
    assert match is not None
    module, attribute, text = match.groups()
    settings = _settings(text)
    name = f"{module}:{attribute}"
    with current_directory_first(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        factory = _find(module, attribute)
        try:
            model = factory(**settings)
        except Exception as error:
            raise ModelError(
                name,
                expected="a factory that makes a network",
                got=f"{type(error).__name__}: {error}",
                remedy='call it without arguments, or give them as JSON: name?{"width": 4}',
            ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(
            name,
            expected="a factory that returns a torch.nn.Module",
            got=type(model).__name__,
            remedy="return the network itself",
        )
    details: dict[str, Any] = {"kind": "factory", "factory": name, "settings": settings}
    if weights is None:
        return loaded(model, name, details, ("no weights were given: they are the factory's own",))
    path = Path(weights).expanduser()
    notes = load_weights(model, path)
    return loaded(model, name, {**details, **file_details(path)}, notes)


def with_features(spec: str, features: int) -> str:
    """``spec`` with the number of features among its settings, if its factory asks for that.

    A factory asks by a parameter ``features``. What else is written as it was.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        return spec
    module, attribute, text = match.groups()
    settings = _settings(text)
    with current_directory_first():
        factory = _find(module, attribute)
    try:
        asked = "features" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables have no signature
        return spec
    if not asked or "features" in settings:
        return spec
    return f"{module}:{attribute}?{json.dumps({**settings, 'features': features})}"


def _settings(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        settings = error
    if not isinstance(settings, dict):
        raise InputError(
            "settings of the factory",
            expected="a JSON object after '?'",
            got=f"{text!r}" + (f" ({settings})" if isinstance(settings, ValueError) else ""),
            remedy='write e.g. nets:build?{"width": 4}, in quotes for the shell',
        )
    return settings


def _find(module: str, attribute: str) -> Any:
    factory = imported(module, attribute)
    if isinstance(factory, nn.Module) or not callable(factory):
        raise InputError(
            f"{module}:{attribute}",
            expected="a function or class that makes the network",
            got=f"a {type(factory).__name__}",
            remedy="write a function that returns it",
        )
    return factory
