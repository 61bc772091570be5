"""When a network's structure is used: traced, compared with the module, unchanged since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from attribound.networks.plain import in_modes
from attribound.networks.probe import probe_inputs
from attribound.networks.structured.comparing import Linearise, agrees
from attribound.networks.structured.network import StructuredNetwork, UnstructuredError
from attribound.networks.structured.stem import Stem, stem_of
from attribound.networks.structured.tracing import trace

#: Modules that change more often than this are left to autograd.
_TRACES = 3


Result = TypeVar("Result")


class Structures:
    """The structure of one model, for inputs of the shapes it was compared on.

    Args:
        model: a module or a function.
        logits: of the model.
        linearise: gradients and products by autograd, with which the structure is compared.
    """

    def __init__(
        self, model: object, logits: Callable[[Tensor], Tensor], linearise: Linearise
    ) -> None:
        self._model, self._logits, self._linearise = model, logits, linearise
        self._traces = 0
        self._network: StructuredNetwork | None = None
        self._agrees: dict[object, bool] = {}
        self._split: StructuredNetwork | None = None
        self._stems: dict[object, Stem | None] = {}

    def at(self, x: Tensor) -> StructuredNetwork | None:
        """The structure for inputs like ``x``; None where autograd has to do."""
        if in_modes() or torch.is_autocast_enabled(x.device.type):
            return None  # somebody watches or changes what is run
        if self._network is None or not self._network.unchanged():
            if self._traces >= _TRACES:
                return None
            self._traces += 1
            self._agrees.clear()
            self._network = trace(self._model)
            if self._network is None:
                self._traces = _TRACES
                return None
        key = (x.shape[1:], x.dtype, x.device)
        if key not in self._agrees:
            self._agrees[key] = False  # if the comparison itself comes here again
            points = probe_inputs(x.detach())
            self._agrees[key] = agrees(self._network, points, self._logits, self._linearise)
        return self._network if self._agrees[key] else None

    def use(self, x: Tensor, work: Callable[[StructuredNetwork], Result]) -> Result | None:
        """``work`` with the structure; None where autograd has to do.

        Inputs that it turns out not to fit are left to autograd from then on.
        """
        network = self.at(x)
        if network is None:
            return None
        try:
            return work(network)
        except UnstructuredError:
            self._agrees[x.shape[1:], x.dtype, x.device] = False
            return None

    def use_stem(self, x: Tensor, work: Callable[[Stem], Result]) -> Result | None:
        """``work`` with the network in two; None where that does not pay, or autograd has to do."""

        def in_two(network: StructuredNetwork) -> Result | None:
            key = (x.shape[1:], x.dtype, x.device)
            if self._split is not network:
                self._split, self._stems = network, {}
            if key not in self._stems:
                stem = stem_of(network)
                self._stems[key] = stem if stem is not None and stem.narrows(x) else None
            stem = self._stems[key]
            return None if stem is None else work(stem)

        return self.use(x, in_two)

    def __getstate__(self) -> dict[str, Any]:
        """Without what was traced: it is traced again where it is needed."""
        return {
            **vars(self),
            "_traces": 0,
            "_network": None,
            "_agrees": {},
            "_split": None,
            "_stems": {},
        }
