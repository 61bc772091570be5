"""Whether modules are what they were: a trace speaks of them only as long as they are."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from attribound.networks.plain import own_ways

_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_FIXED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_TENSORS = (Tensor, nn.Parameter, nn.Buffer)
_GLOBAL_HOOKS = [
    name for name in vars(torch_modules) if name.startswith("_global_") and name.endswith("hooks")
]


def readable(module: nn.Module) -> bool:
    """Whether a module is its class and numbers, texts, tensors and modules that PyTorch knows of.

    False for replaced methods, hooks, tensors of other kinds and attributes that could change
    unseen.
    """
    if own_ways(module):
        return False
    tensors = [*module._parameters.values(), *module._buffers.values()]
    if any(t is not None and type(t) not in _TENSORS for t in tensors):
        return False
    return all(_fixed(value) for key, value in vars(module).items() if key not in _TORCHS_OWN)


_TORCHS_OWN = frozenset(vars(nn.Module()))


def _fixed(value: Any) -> bool:
    """Whether a value can't change, or shows in a comparison when it does."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(isinstance(item, (*_PLAIN, *_FIXED)) for item in value)
    if isinstance(value, dict):
        return all(isinstance(item, (*_PLAIN, *_FIXED)) for item in value.values())
    if isinstance(value, types.FunctionType):
        return not reads_surroundings(value)
    frozen = is_dataclass(value) and getattr(value, "__dataclass_params__").frozen  # noqa: B009
    return frozen or isinstance(value, (*_PLAIN, *_FIXED))


def reads_surroundings(function: types.FunctionType) -> bool:
    """Whether a function uses variables from outside that are neither functions nor classes.

    Of the functions it calls in turn nothing is known.
    """
    found = inspect.getclosurevars(function)
    values = {**found.nonlocals, **found.globals}
    values.pop("__class__", None)  # of super()
    return not all(isinstance(value, _FIXED) for value in values.values())


class Unchanged:
    """Remembers modules; called, says whether they are as they were, weights apart.

    Weights may have other values: they are read anew whenever they are used. Another
    tensor in their place, another attribute, class, mode, child or hook is a change, and so
    is a method or attribute that their classes have got since.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = [(module, type(module), _copied(vars(module))) for module in modules]
        kinds = dict.fromkeys(kind for module in modules for kind in type(module).__mro__)
        self._kinds = [(kind, dict(vars(kind))) for kind in kinds]

    def __call__(self) -> bool:
        """Compared by identity first, so that no tensor's numbers are looked at."""
        if any(getattr(torch_modules, name) for name in _GLOBAL_HOOKS):
            return False
        try:
            return all(
                type(module) is kind and vars(module) == before
                for module, kind, before in self._modules
            ) and all(vars(kind) == before for kind, before in self._kinds)
        except (RuntimeError, ValueError):  # two tensors were compared: another one in its place
            return False


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with collections as they are now."""
    return {
        key: type(value)(value) if type(value) in (dict, list, set) else _ordered(value)
        for key, value in attributes.items()
    }


def _ordered(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value
