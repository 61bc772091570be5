"""Optimisers as values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from attribound.basics.numbers import check_fraction, check_least, check_positive
from attribound.values import Value, register


class Optimiser(Value, ABC):
    """How a step follows from a gradient.

    Attributes:
        lr: the learning rate, which the schedule multiplies.
    """

    lr: float

    @abstractmethod
    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of PyTorch."""


@register("adam")
@dataclass(frozen=True)
class Adam(Optimiser):
    """Adam of Kingma and Ba; weight decay is added to the gradient."""

    lr: float = 1e-3
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999

    def __post_init__(self) -> None:
        """Refuse rates that cannot be."""
        check_positive("lr", self.lr, "use e.g. 0.001")
        check_least("weight_decay", self.weight_decay, 0)
        check_fraction("beta1", self.beta1)
        check_fraction("beta2", self.beta2)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of PyTorch."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam(parameters, self.lr, betas, weight_decay=self.weight_decay)


@register("sgd")
@dataclass(frozen=True)
class SGD(Optimiser):
    """Stochastic gradient descent with momentum."""

    lr: float = 0.1
    weight_decay: float = 0.0
    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        """Refuse rates that cannot be."""
        check_positive("lr", self.lr, "use e.g. 0.1")
        check_least("weight_decay", self.weight_decay, 0)
        check_least("momentum", self.momentum, 0)
        if self.nesterov:
            check_positive("momentum", self.momentum, "nesterov needs it, e.g. 0.9")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of PyTorch."""
        return torch.optim.SGD(
            parameters,
            self.lr,
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )
