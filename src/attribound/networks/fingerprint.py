"""Recognise a model: one hash of everything that can be read off it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass

import numpy as np
import torch
from torch import Tensor, nn

from attribound.basics.errors import ModelError

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(subject: str, model: object) -> str:
    """``sha256:...`` of a module, or ``named:...`` for another callable that has a name.

    Of a module it covers names, shapes, dtypes and bytes of parameters and buffers, the
    ``repr`` of the module tree, and public attributes that are numbers, texts, tensors,
    arrays, modules or collections of these. It does not depend on the device, the mode
    (train or eval) or the process. It does not see the code of ``forward``, private
    attributes and hooks: it tells models apart that were mistaken, not disguised.

    Anything else cannot be read. It is refused unless its attribute ``fingerprint`` is a
    text, for which the user vouches.
    """
    if isinstance(model, nn.Module):
        reader = _Reader()
        reader.module(model)
        return f"sha256:{reader.hash.hexdigest()}"
    name = getattr(model, "fingerprint", None)
    if isinstance(name, str):
        return f"named:{name}"
    raise ModelError(
        subject,
        expected="a torch.nn.Module, or a function with a text as its attribute fingerprint",
        got=f"a {type(model).__name__} without one",
        remedy="a function cannot be recognised by itself: wrap it in a module with its weights, "
        "or set its fingerprint to a name that you change whenever you change the function",
    )


def tensor_digest(tensor: Tensor) -> str:
    """SHA-256 of the shape, dtype and bytes of a tensor, wherever it is."""
    reader = _Reader()
    reader.tensor(tensor)
    return reader.hash.hexdigest()


def without_addresses(text: str) -> str:
    """``text`` without the memory addresses of objects, which differ from run to run."""
    return _ADDRESS.sub("", text)


class _Reader:
    """Feeds values into a hash; what is being read already, in circles, is not entered again."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._inside: frozenset[int] = frozenset()

    def module(self, module: nn.Module) -> None:
        self.text(repr(module))
        with self._within(*module.modules()):
            for name, child in module.named_modules():
                self.text(name)
                for key, value in sorted(_public(child).items()):
                    self.text(key)
                    self.value(value)
        # Buffers that are not saved take part in the computation, too.
        tensors = {**dict(module.named_buffers()), **module.state_dict()}
        for name, value in sorted(tensors.items()):
            self.text(name)
            self.value(value)

    def value(self, value: object) -> None:
        if isinstance(value, _PLAIN):
            self.text(repr(value))
        elif isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, np.ndarray):
            self.tensor(torch.from_numpy(np.ascontiguousarray(value)))
        elif id(value) in self._inside:
            self.text("circle")
        elif isinstance(value, nn.Module):
            self.module(value)
        else:
            with self._within(value):
                self.collection(value)

    @contextmanager
    def _within(self, *entered: object) -> Iterator[None]:
        before = self._inside
        self._inside = before | {id(value) for value in entered}
        try:
            yield
        finally:
            self._inside = before

    def collection(self, value: object) -> None:
        self.text(type(value).__name__)
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.text(repr(key))
                self.value(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.value(item)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                self.value(getattr(value, field.name))
        else:
            self.text(getattr(value, "__qualname__", ""))

    def text(self, text: str) -> None:
        encoded = without_addresses(text).encode()
        self.hash.update(f"{len(encoded)}:".encode() + encoded)  # lengths keep texts apart

    def tensor(self, tensor: Tensor) -> None:
        self.text(f"{tensor.dtype} {tuple(tensor.shape)}")
        flat = tensor.detach().cpu().contiguous().flatten()
        self.hash.update(flat.view(torch.uint8).numpy().data)


def _public(module: nn.Module) -> dict[str, object]:
    """Public attributes of a module and settings of the classes it was written with."""
    found: dict[str, object] = {}
    for kind in reversed(type(module).__mro__):
        if kind.__module__.split(".")[0] in ("torch", "builtins"):
            continue  # in the repr
        found |= {
            name: value
            for name, value in vars(kind).items()
            if isinstance(value, (*_PLAIN, Tensor)) or is_dataclass(value)
        }
    found |= vars(module)
    return {k: v for k, v in found.items() if not k.startswith("_") and k != "training"}
