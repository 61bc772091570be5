"""What an objective of training is: an attack, and named terms of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from attribound.training.passes import Passes
from attribound.training.step import Step


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of one batch.

    Attributes:
        total: what is minimised, a number with a graph to the parameters.
        terms: what it is the sum of, weights included, by name.
        attacked: the inputs x' it was computed at; ``x`` itself where nothing attacks.
    """

    total: Tensor
    terms: Mapping[str, Tensor]
    attacked: Tensor


class Objective(ABC):
    """A training method: a frozen value with plain settings.

    To add one, write ``attack`` and ``losses`` (most derive from
    :class:`~attribound.training.inner.Adversarial`, which has the attack), say what they cost,
    and enter it in the registry.

    Plain losses of the prediction are taken in the mode the model is in, train mode in
    training. Attacks and attributions are taken in eval mode: dropout or the statistics of
    a batch would make the attributions of x and x' differ by noise.

    Attributes:
        name: what it is called in configs and tables.
        terms: the names of the terms of its loss.
    """

    name: ClassVar[str]
    terms: ClassVar[tuple[str, ...]]

    @abstractmethod
    def attack(self, step: Step) -> Tensor:
        """The perturbed inputs x', detached; the model is left as it was."""

    @abstractmethod
    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        """Each term at the given x': its mean over the batch times its weight, with its graph."""

    @property
    @abstractmethod
    def attack_passes(self) -> Passes:
        """What ``attack`` costs, all with respect to the inputs."""

    @property
    @abstractmethod
    def loss_passes(self) -> Passes:
        """What ``losses`` and its backward cost, all with respect to the parameters."""

    @property
    def passes(self) -> Passes:
        """What a step costs."""
        return self.attack_passes + self.loss_passes

    def __call__(self, step: Step) -> Losses:
        """Attack, then the loss."""
        attacked = self.attack(step)
        terms = self.losses(step, attacked)
        return Losses(torch.stack([*terms.values()]).sum(), terms, attacked)
