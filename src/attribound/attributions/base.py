"""What an attribution is: a map g, and its Jacobian as an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.classifier import Classifier
from attribound.attributions.inputs import Target, check_inputs
from attribound.operators import LinearOperator

Model = Classifier | Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Linearization:
    """The attribution ``value`` at x, ``(batch, *features)``, and its Jacobian there.

    ``jacobian`` holds J with J[i, j] = dg_i / dx_j; ``target`` are the labels explained.
    """

    value: Tensor
    jacobian: LinearOperator
    target: Tensor


class Attribution(ABC):
    """A differentiable map g from inputs ``(batch, *features)`` to scores of the same shape.

    To add one, derive from :class:`ModelAttribution` and write ``_value`` and
    ``_linearize``; inputs are checked, labels filled in and the model probed
    before these are called.
    """

    classifier: Classifier | None

    def __call__(self, x: Tensor, target: Target = None) -> Tensor:
        """The attribution of each example, detached; default target: the predicted class."""
        x = check_inputs(x)
        self._check(x, smooth=False)
        with torch.no_grad():
            return self._value(x, self.targets(x, target)).detach()

    def linearize(self, x: Tensor, target: Target = None) -> Linearization:
        """The attribution and its Jacobian at ``x``; refuses what has no Jacobian."""
        x = check_inputs(x)
        with torch.no_grad():
            labels = self.targets(x, target)
            self._check(x, smooth=True)
            return self._linearize(x, labels)

    @property
    def kinked(self) -> bool:
        """Whether a network with kinks was let through."""
        return self.classifier is not None and self.classifier.kinked

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return type(self).__name__

    def rows(self, x: Tensor, rows: slice) -> Attribution:  # noqa: ARG002
        """The same attribution for some rows of the batch ``x``.

        Another object only where settings are per row.
        """
        return self

    @abstractmethod
    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""

    @abstractmethod
    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""

    @abstractmethod
    def _check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a model or function that cannot be used on ``x``."""

    @abstractmethod
    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        """g(x)."""

    @abstractmethod
    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        """g(x) and J(x)."""


class ModelAttribution(Attribution):
    """An attribution made of the gradients of a classifier.

    Attributes:
        points: points at which the gradient is taken for one example.
    """

    classifier: Classifier
    points: int = 1

    def __init__(self, model: Model) -> None:
        self.classifier = Classifier.of(model)

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        return self.classifier.targets(x, target)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        each = self.points * self.classifier.graph_bytes(x)
        return max(1, self.classifier.memory_limit // each)

    def _check(self, x: Tensor, *, smooth: bool) -> None:
        self.classifier.check(x, smooth=smooth)
