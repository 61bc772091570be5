"""Use a model without its parameters taking part in differentiation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
