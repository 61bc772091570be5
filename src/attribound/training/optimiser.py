"""Optimisers as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from attribound.training.checks import check_positive
from attribound.training.settings import check_fraction, check_least


@dataclass(frozen=True)
class Adam:
    """Adam of Kingma and Ba; weight decay is added to the gradient."""

    name: Literal["adam"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999

    def __post_init__(self) -> None:
        """Refuse rates that cannot be."""
        check_positive("optimiser.lr", self.lr, "use e.g. 0.001")
        check_least("optimiser.weight_decay", self.weight_decay, 0)
        check_fraction("optimiser.beta1", self.beta1)
        check_fraction("optimiser.beta2", self.beta2)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of PyTorch."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam(parameters, self.lr, betas, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    lr: float = 0.1
    weight_decay: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        """Refuse rates that cannot be."""
        check_positive("optimiser.lr", self.lr, "use e.g. 0.1")
        check_least("optimiser.weight_decay", self.weight_decay, 0)
        check_least("optimiser.momentum", self.momentum, 0)
        if self.nesterov:
            check_positive("optimiser.momentum", self.momentum, "nesterov needs it, e.g. 0.9")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of PyTorch."""
        return torch.optim.SGD(
            parameters,
            self.lr,
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )


Optimiser = Adam | SGD
