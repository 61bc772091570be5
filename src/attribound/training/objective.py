"""What an objective of training is: an attack, and named terms of a loss, of one batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from attribound.balls import Ball
from attribound.values import Value, name_of


@dataclass(frozen=True, eq=False)
class Step:
    """What an objective sees of one step of training.

    Attributes:
        model: in train mode; objectives switch to eval mode and back where they must.
        x: inputs ``(batch, *features)``.
        y: their labels ``(batch,)``.
        ball: what the inner attack may do at this step, range of values included.
        seed: of every random draw of this step; another one at every step.
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    ball: Ball
    seed: int


@dataclass(frozen=True)
class Passes:
    """What a step costs: how often the model is run for one example.

    Attributes:
        first: forward, then backward to the input or to the parameters.
        second: forward, gradient with respect to the input, then backward through it.
        forward: forward alone.
    """

    first: int = 0
    second: int = 0
    forward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(
            self.first + other.first, self.second + other.second, self.forward + other.forward
        )

    def __mul__(self, times: int) -> Passes:
        return Passes(self.first * times, self.second * times, self.forward * times)


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


class TrainingObjective(Value, ABC):
    """A training method: a frozen value with plain settings.

    To add one, write ``attack`` and ``losses`` (most derive from
    :class:`~attribound.training.inner.Adversarial`, which has the attack), say what they cost,
    and give it a name with ``@register("name")``, or call it ``package.module:Class``.

    Plain losses of the prediction are taken in the mode the model is in, train mode in
    training. Attacks and attributions are taken in eval mode: dropout or the statistics of
    a batch would make the attributions of x and x' differ by noise.

    Attributes:
        terms: the names of the terms of its loss.
    """

    terms: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """What it is called in configs and tables."""
        return name_of(type(self))

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


class BatchLoss(nn.Module):
    """Attack and losses of ``objective`` on ``model`` as the forward of one module.

    Data-parallel wrappers reduce gradients once per forward and backward of what they
    wrap. An objective runs the network many times, also for gradients with respect to
    the input: all of that is inside one forward of this module.
    """

    def __init__(self, model: nn.Module, objective: TrainingObjective, ball: Ball) -> None:
        super().__init__()
        self.model, self.objective, self.ball = model, objective, ball

    def at(self, x: Tensor, y: Tensor, epsilon: float, seed: int) -> Step:
        """The step an objective sees."""
        return Step(self.model, x, y, self.ball.at_radius(epsilon), seed)

    def forward(self, x: Tensor, y: Tensor, epsilon: float, seed: int) -> dict[str, Tensor]:
        """``total``, ``attacked`` and, as ``term:NAME``, the terms."""
        losses = self.objective(self.at(x, y, epsilon, seed))
        terms = {f"term:{name}": value for name, value in losses.terms.items()}
        return {"total": losses.total, "attacked": losses.attacked, **terms}
