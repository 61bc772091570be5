"""Use a model without its parameters taking part in differentiation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.autograd.graph import saved_tensors_hooks


@contextmanager
def frozen(model: object) -> Iterator[None]:
    """No parameter of ``model`` requires a gradient while the context lasts."""
    trainable = []
    if isinstance(model, nn.Module):
        trainable = [p for p in model.parameters() if p.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


@contextmanager
def saved_bytes(model: object) -> Iterator[dict[int, int]]:
    """Sizes of the storages that autograd saves meanwhile, by address, without the parameters'."""
    held: dict[int, int] = {}
    own = set()
    if isinstance(model, nn.Module):
        own = {tensor.untyped_storage().data_ptr() for tensor in model.parameters()}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield held
