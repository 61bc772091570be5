"""Networks that come as a graph of operators instead of Python code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from attribound.basics.errors import ModelError
from attribound.basics.limits import MOST_VALUES
from attribound.networks.frozen import frozen
from attribound.networks.probe import probe_determinism, probe_separation


class TracedNetwork(nn.Module):
    """Logits ``(batch, classes)`` of the one input of a graph.

    ``program`` is the graph as text, so that a fingerprint tells graphs with the same
    weights apart.
    """

    def __init__(self, network: GraphModule) -> None:
        super().__init__()
        self.network = network
        self.program = network.code

    def forward(self, x: Tensor) -> Tensor:
        """The logits of ``x``."""
        return cast("Tensor", self.network(x))


def check_network(subject: str, model: nn.Module, shape: Sequence[int | None], remedy: str) -> None:
    """Refuse a network that cannot be bounded: measured on three random inputs of ``shape``.

    It must take any number of examples, give one row of logits for each, the same every
    time, none looking at the others, and be differentiable twice. Nothing is measured
    where a size of the inputs is free (``None``): which one would do is not known.

    Raises:
        ModelError: it does not; ``remedy`` says how to export it.
    """
    weights = (t for t in model.state_dict().values() if t.is_floating_point())
    dtype = next(weights, torch.empty(0)).dtype
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape):
        return
    if math.prod(sizes) > MOST_VALUES:
        raise ModelError(
            subject,
            expected=f"a network for inputs of at most {MOST_VALUES:,} values",
            got=f"one for inputs of shape {tuple(sizes)}",
            remedy="check the file: no example is that large",
        )
    x = torch.rand(3, *sizes, generator=torch.Generator().manual_seed(0)).to(dtype)
    with frozen(model):
        try:
            logits, single = model(x), model(x[:1])
            _differentiate_twice(model, x)
        # Operators of a foreign graph may fail in any way.
        except Exception as error:
            raise ModelError(
                subject,
                expected=f"a network that takes 1 and 3 inputs of shape {tuple(sizes)} and can be "
                "differentiated twice",
                got=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
                remedy=remedy,
            ) from error
        rows, row = (tuple(getattr(out, "shape", ())) for out in (logits, single))
        if len(rows) != 2 or (rows[0], row) != (3, (1, rows[1])):
            raise ModelError(
                subject,
                expected="logits (batch, classes) for every batch",
                got=f"{rows} for 3 inputs and {row} for one",
                remedy=remedy,
            )
        probe_determinism(subject, model, x)
        probe_separation(subject, model, x)


def _differentiate_twice(model: nn.Module, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        torch.autograd.grad(slope.square().sum(), x)
