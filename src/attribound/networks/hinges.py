"""Where a network has its kinks: the numbers whose sign decides, and how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Keeps the arguments of hinged functions, and what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func not in _HINGED:
            return func(*args, **(kwargs or {}))
        given = args[0] if args else (kwargs or {})["input"]
        argument = given.clone()  # the function may work in place
        value = func(*args, **(kwargs or {}))
        self.found.append((argument, value))
        return value


def hinges(classifier: Classifier, x: Tensor) -> list[Tensor]:
    """The arguments ``(batch, neurons)`` of every hinged function at ``x``, with their graph.

    One tensor a function, in the order they are called; none for a network without.
    """
    with torch.enable_grad(), _Recorder() as recorder:
        classifier.logits(x)
    return [argument.flatten(1) for argument, _ in _of_examples(recorder, x)]


def weighed_hinges(classifier: Classifier, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """All arguments ``(batch, neurons)`` at ``x`` with their graph, and what each counts for.

    The second are derivatives of the target's logit by what the functions give: how far the
    gradient of the logit jumps where a neuron switches, in units of the slope of its argument.
    Both have no columns for a network without kinks.
    """
    with torch.enable_grad(), _Recorder() as recorder:
        score = classifier.logits(x).gather(1, target.unsqueeze(1)).sum()
    found = _of_examples(recorder, x)
    if not found:
        return x.new_zeros(len(x), 0), x.new_zeros(len(x), 0)
    arguments, values = zip(*found, strict=True)
    slopes = torch.autograd.grad(score, values, retain_graph=True, allow_unused=True)
    weights = [
        torch.zeros_like(value) if slope is None else slope
        for value, slope in zip(values, slopes, strict=True)
    ]
    return _flat(arguments), _flat(weights)


def _flat(every: Sequence[Tensor]) -> Tensor:
    return torch.cat([each.flatten(1) for each in every], 1)


def _of_examples(recorder: _Recorder, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What belongs to examples, one row each."""
    rows = len(x)
    return [pair for pair in recorder.found if pair[0].dim() > 1 and len(pair[0]) == rows]
