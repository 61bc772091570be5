"""Use a model in eval mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(model: object) -> Iterator[None]:
    """Every module of ``model`` is in eval mode while the context lasts.

    Afterwards each is in the mode it was in, also after an error: parts that a user
    keeps in eval mode during training (frozen batch norms) stay there.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False  # not .eval(), which would change its children, too
    try:
        yield
    finally:
        for module in training:
            module.training = True
