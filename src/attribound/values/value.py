"""Values as plain data, and back, strictly."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, is_dataclass
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.trusting import already_there
from attribound.values.checking import checked
from attribound.values.fields import default, settings
from attribound.values.parsing import parse_text
from attribound.values.registry import FOREIGN, class_of, imported, name_of, names

_PLAIN_DTYPES = (torch.float64, torch.bool, torch.int64)


class Value:
    """Base of attributions, balls, attacks, methods, solvers and objectives.

    A subclass is a frozen dataclass. Its fields are its settings, of types that pydantic can
    check: numbers, texts, ``Literal``, tuples, tensors, other values. Fields with the metadata
    ``NO_SETTING`` are left alone. :func:`to_spec` and :func:`from_spec` turn it into plain
    data and back; :func:`register` gives it a short name, without which it is called
    ``module:Class``.

    A dataclass with tensors among its fields says ``eq=False`` and is then compared by its
    settings.
    """

    #: Whether plain data of it say which class they are of.
    kinded: ClassVar[bool] = True

    @classmethod
    def adopt(cls, thing: object) -> Value | None:  # noqa: ARG003
        """A value made of something else that users have in its place; None if there is none."""
        return None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Values inside other settings are read by :func:`from_spec`."""
        from pydantic_core import core_schema  # noqa: PLC0415 - pydantic called us: it is there

        return core_schema.no_info_plain_validator_function(lambda given: from_spec(given, source))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        same: bool = to_spec(self, whole=True) == to_spec(other, whole=True)
        return same

    def __hash__(self) -> int:
        return hash(repr(to_spec(self, whole=True)))


class Record(Value):
    """Settings of one class only, such as those of an audit: nothing needs to say which."""

    kinded = False


Kind = TypeVar("Kind", bound=Value)


def to_spec(value: object, *, whole: bool = False) -> Any:
    """``value`` as numbers, texts, lists and dictionaries; :func:`from_spec` gives it back.

    Args:
        value: a value, or a collection of values.
        whole: settings that have their defaults, too.

    >>> from attribound.attributions import IntegratedGradients
    >>> to_spec(IntegratedGradients(steps=50))
    {'kind': 'ig', 'steps': 50}
    """
    if isinstance(value, Value):
        head = {"kind": name_of(type(value))} if value.kinded else {}
        return head | _fields(value, whole)
    if isinstance(value, Mapping):
        return {str(key): to_spec(item, whole=whole) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_spec(item, whole=whole) for item in value]
    if isinstance(value, Tensor):
        return _tensor_spec(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    if callable(value):
        if isinstance(named := getattr(value, "fingerprint", None), str):
            return f"named:{named}"
        # An object that can be called has no name to find it by: two of a class may differ.
        name = getattr(value, "__qualname__", f"<{type(value).__name__}>")
        return f"{value.__module__}:{name}"
    return value


def from_spec(spec: object, kind: Callable[..., Kind]) -> Kind:
    """The value of that kind that ``spec`` describes.

    Args:
        spec: plain data, a text (``"ig:steps=50"``), a class, or a value already. A table inside
            that doesn't say its kind changes the value that this setting usually has.
        kind: what it must be, e.g. ``Attack``.

    Raises:
        InputError: something is unknown, missing or of a wrong type; all of it is named.
    """
    wanted = cast("type[Kind]", kind)  # mypy takes no abstract class for a type[Kind]
    if isinstance(spec, wanted):
        return spec
    if isinstance(spec, type) and issubclass(spec, wanted) and not inspect.isabstract(spec):
        return spec(**checked(spec, {}))
    if isinstance(spec, str):
        spec = _from_text(spec, wanted)
    if not isinstance(spec, Mapping):
        adopted = wanted.adopt(spec)
        if isinstance(adopted, wanted):
            return adopted
        raise _not_a(wanted, spec)
    document = dict(spec)
    name = document.pop("kind", None)
    whole = is_dataclass(wanted) and not inspect.isabstract(wanted)
    own = wanted if name is None and whole else _class(name, wanted)
    if not isinstance(own, type):
        if document:
            raise _not_a(wanted, spec)
        return cast("Kind", own)
    return cast("Kind", own(**checked(own, _completed(own, document))))


def _completed(kind: type[Value], document: dict[str, Any]) -> dict[str, Any]:
    """``document`` with the usual value in each table that only says what is changed in it."""
    usual = {each.name: default(each) for each in settings(kind)}

    def complete(key: str, given: Any) -> Any:
        own = usual.get(key)
        if not isinstance(given, Mapping) or "kind" in given:
            return given
        return {**to_spec(own, whole=True), **given} if _chosen(own) else given

    return {str(key): complete(str(key), given) for key, given in document.items()}


def _chosen(value: object) -> bool:
    """Whether it is a value of one among several kinds."""
    return isinstance(value, Value) and value.kinded


def _from_text(text: str, kind: type[Value]) -> dict[str, Any]:
    """A text is the first setting of a record, and otherwise names a value."""
    if not kind.kinded:
        first = next(iter(settings(kind)))
        return {first.name: text}
    return parse_text(text)


def _class(name: object, kind: type[Value]) -> Any:
    """The class that ``name`` stands for; or the value that something else of that name makes."""
    if not isinstance(name, str):
        raise InputError(
            kind.__name__,
            expected=f"a 'kind', one of {', '.join(names(kind))}",
            got="none" if name is None else repr(name),
            remedy="say which, e.g. kind = " + repr(next(iter(names(kind)), "module:Class")),
        )
    match = FOREIGN.fullmatch(name)
    if match is None:
        return class_of(name, kind)
    module, attribute = match.groups()
    found = already_there(module, attribute)
    # A class that the program has itself is no code of a file.
    if not (isinstance(found, type) and issubclass(found, kind)):
        found = imported(module, attribute)
    if isinstance(found, type) and issubclass(found, kind):
        return found
    adopted = kind.adopt(found)
    if isinstance(adopted, kind):
        return adopted
    raise InputError(
        name,
        expected=f"a class derived from {kind.__name__}",
        got=f"a {type(found).__name__}" if not isinstance(found, type) else found.__name__,
        remedy=f"derive it from attribound's {kind.__name__}",
    )


def _not_a(kind: type[Value], spec: object) -> InputError:
    if not kind.kinded:
        known = ", ".join(each.name for each in settings(kind))
        return InputError(
            kind.__name__,
            expected=f"a table of settings: {known}",
            got=repr(spec),
            remedy="give the settings by their names",
        )
    known = ", ".join(names(kind)) or kind.__name__
    return InputError(
        kind.__name__,
        expected=f"a value, a text or a table of one: {known}, or MODULE:CLASS",
        got=repr(spec),
        remedy="pass the value itself, e.g. the object you would call",
    )


def _fields(value: Value, whole: bool) -> dict[str, Any]:
    found = {}
    for each in settings(type(value)):
        own = to_spec(getattr(value, each.name), whole=whole)
        usual = default(each)
        if whole or usual is MISSING or own != to_spec(usual, whole=whole):
            found[each.name] = own
    return found


def _tensor_spec(tensor: Tensor) -> Any:
    plain = tensor.detach().cpu()
    values = plain.tolist()
    if plain.is_floating_point() and not torch.isfinite(plain).all():
        values = to_spec(values)  # JSON has no infinity
    if plain.dtype in _PLAIN_DTYPES:
        return values
    return {"dtype": str(plain.dtype).removeprefix("torch."), "values": values}
