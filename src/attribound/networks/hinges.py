"""Where a network has its kinks: the numbers whose sign decides, and how far off they are."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attribound.networks.classifier import Classifier

#: Functions with a kink where their first argument is zero.
_HINGED = {
    *(F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_),
    *(F.leaky_relu, F.leaky_relu_, F.prelu, torch.prelu, Tensor.prelu),
    *(torch.abs, Tensor.abs),
}


class _Recorder(TorchFunctionMode):
    """Keeps the arguments of hinged functions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _HINGED:
            given = args[0] if args else (kwargs or {})["input"]
            self.found.append(given.clone())  # the function may work in place
        return func(*args, **(kwargs or {}))


def hinges(classifier: Classifier, x: Tensor) -> list[Tensor]:
    """The arguments ``(batch, neurons)`` of every hinged function at ``x``, with their graph.

    One tensor a function, in the order they are called; none for a network without.
    """
    with torch.enable_grad(), _Recorder() as recorder:
        classifier.logits(x)
    rows = len(x)
    return [each.flatten(1) for each in recorder.found if each.dim() > 1 and len(each) == rows]
