"""Whether modules are what they were: a trace speaks of them only as long as they are."""

from __future__ import annotations

import builtins
import dis
import operator
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
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
    return _frozen(value)


def _frozen(value: Any) -> bool:
    """Whether a value can't change at all."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_frozen, value))
    if is_dataclass(value) and not isinstance(value, type):
        frozen = getattr(value, "__dataclass_params__").frozen  # noqa: B009
        return frozen and (
            _known(type(value)) or all(_frozen(getattr(value, each.name)) for each in fields(value))
        )
    return isinstance(value, (*_PLAIN, *_FIXED))


def reads_surroundings(function: types.FunctionType) -> bool:
    """Whether a function, or one that it calls, uses what may become another from outside.

    Names that stand for functions, modules and classes of PyTorch, and for functions that
    read nothing else, do not: :class:`Unchanged` sees when they stand for others.
    """
    return surroundings([function]) is None


def surroundings(
    functions: Iterable[types.FunctionType], watched: Collection[type] = ()
) -> list[Read] | None:
    """All names outside of functions that they and those they call read; None if too much.

    ``watched``: classes whose changes are seen by others.
    """
    waiting, seen, found = list(functions), set[types.FunctionType](), list[Read]()
    while waiting:
        function = waiting.pop()
        if function in seen or _known(function):
            continue
        seen.add(function)
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        reads = _reads(function)
        if reads is None or vars(function) or not all(map(_frozen, defaults)):
            return None
        for read in reads:
            value = read.value
            if isinstance(value, types.FunctionType):
                waiting.append(value)
            elif not _known(value) and value not in watched:
                return None
        found += reads
    return found


@dataclass(frozen=True, eq=False)
class Read:
    """A name outside of a function, and what it stood for."""

    where: Callable[[], Any]
    value: Any

    def same(self) -> bool:
        """Whether it stands for that still."""
        try:
            return self.where() is self.value
        except (KeyError, ValueError):  # gone; an empty cell
            return False


def _reads(function: types.FunctionType) -> list[Read] | None:
    """The names that the code of a function reads, cells and globals; None if it imports."""
    reads: list[Read] = []
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name == "__class__":  # of super()
            continue
        try:
            reads.append(Read(partial(getattr, cell, "cell_contents"), cell.cell_contents))
        except ValueError:
            return None
    codes = [code]
    while codes:
        code = codes.pop()
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME" or step.opname.startswith("STORE_GLOBAL"):
                return None
            if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
                continue
            if step.argval in function.__globals__:
                where = function.__globals__
            elif step.argval in _BUILTINS:
                where = vars(builtins)
            else:
                return None
            reads.append(Read(partial(operator.getitem, where, step.argval), where[step.argval]))
    return reads


def _known(value: Any) -> bool:
    """Whether a module, function or class is one that nobody changes: PyTorch's, say, or ours."""
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] in _NOBODYS
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return str(value.__module__ or "torch").split(".")[0] in _NOBODYS
    return False


_NOBODYS = ("torch", "math", "builtins", "_operator", "warnings", "attribound")
#: Those that read nothing but what they are given.
_BUILTINS = frozenset(
    {
        *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int"),
        *("isinstance", "iter", "len", "list", "map", "max", "min", "next", "pow", "range"),
        *("reversed", "round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type"),
        *("zip", "True", "False", "None", "property", "RuntimeError", "ValueError", "TypeError"),
        *("NotImplementedError", "AssertionError", "Exception", "getattr", "hasattr", "repr"),
    }
)


def methods(kind: type) -> list[types.FunctionType] | None:
    """What a class of a user computes with; None if some of it may change unseen."""
    found: list[types.FunctionType] = []
    for name, value in vars(kind).items():
        if name in _NOT_COMPUTED:
            continue
        if isinstance(value, property):
            found += [each for each in (value.fget,) if isinstance(each, types.FunctionType)]
        elif isinstance(value, (staticmethod, classmethod)):
            found += [each for each in (value.__func__,) if isinstance(each, types.FunctionType)]
        elif isinstance(value, types.FunctionType):
            found.append(value)
        elif not _frozen(value):
            return None
    return found


_NOT_COMPUTED = frozenset(
    {
        *("__init__", "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__parameters__"),
        *("__orig_bases__", "__static_attributes__", "__firstlineno__", "__abstractmethods__"),
        *("__repr__", "__eq__", "__hash__", "__constants__", "_abc_impl", "extra_repr"),
        *("__reduce_ex__", "__deepcopy__", "__copy__", "_get_name", "__annotate_func__"),
        *("__annotations_cache__", "__annotate__", "__getstate__", "__setstate__"),
    }
)


class Unchanged:
    """Remembers modules; called, says whether they are as they were, weights apart.

    Weights may have other values: they are read anew whenever they are used. Another
    tensor in their place, another attribute, class, mode, child or hook is a change, and so
    is a method or attribute that their classes have got since.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules: list[tuple[nn.Module, type, dict[str, Any]]] | None = [
            (module, type(module), _copied(vars(module))) for module in modules
        ]
        kinds = dict.fromkeys(kind for module in modules for kind in type(module).__mro__)
        self._kinds = [(kind, dict(vars(kind))) for kind in kinds]
        self._reads = outside(modules) or []

    def __call__(self) -> bool:
        """Compared by identity first, so that no tensor's numbers are looked at."""
        if self._modules is None or any(getattr(torch_modules, name) for name in _GLOBAL_HOOKS):
            return False
        return (
            all(type(module) is kind for module, kind, _ in self._modules)
            and all(_equal(vars(module), before) for module, _, before in self._modules)
            and all(_equal(vars(kind), before) for kind, before in self._kinds)
            and all(read.same() for read in self._reads)
        )

    def but_for_running(self) -> Unchanged:
        """The same, without attributes that have changed since, when they only ran: counters.

        Not modes, children and weights, by which a network is refused.
        """
        for module, _, before in self._modules or []:
            for name, value in vars(module).items():
                if name not in _JUDGED and not _equal(
                    {name: value}, {name: before.get(name, _UNSET)}
                ):
                    before[name] = _ANYTHING
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Elsewhere nothing is known of the modules."""
        return {"_modules": None, "_kinds": [], "_reads": []}


class _Anything:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


_ANYTHING, _UNSET = _Anything(), object()
_JUDGED = ("training", "_modules", "_parameters")


def _equal(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    try:
        return now == before
    except (RuntimeError, ValueError):  # two tensors were compared: another one in its place
        pass
    return now.keys() == before.keys() and all(map(_same, now.values(), before.values()))


def _same(now: Any, before: Any) -> bool:
    try:
        return now is before or before is _ANYTHING or bool(now == before)
    except (RuntimeError, ValueError):
        return False


def outside(modules: Iterable[nn.Module]) -> list[Read] | None:
    """What the code of modules reads outside of them; None if too much to keep an eye on."""
    kinds = {kind for module in modules for kind in type(module).__mro__}
    functions: list[types.FunctionType] = []
    for kind in kinds:
        own = [] if _known(kind) else methods(kind)
        if own is None:
            return None
        functions += own
    for module in modules:
        own = [each for each in vars(module).values() if isinstance(each, types.FunctionType)]
        functions += own
    return surroundings(functions, kinds)


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with collections as they are now."""
    return {
        key: type(value)(value) if type(value) in (dict, list, set) else _ordered(value)
        for key, value in attributes.items()
    }


def _ordered(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value
