"""What an attribution is: a map g, and its Jacobian as an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.networks.classifier import Classifier
from attribound.networks.inputs import Target, check_inputs
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

    Attributes:
        classifier: the model behind it, if known.
        points: points at which the gradient is taken for one example.
    """

    classifier: Classifier | None
    points: int = 1

    def __call__(self, x: Tensor, target: Target = None) -> Tensor:
        """The attribution of each example, detached; default target: the predicted class."""
        x = check_inputs(x)
        self.check(x, smooth=False)
        with torch.no_grad():
            return self._value(x, self.targets(x, target)).detach()

    def linearize(self, x: Tensor, target: Target = None) -> Linearization:
        """The attribution and its Jacobian at ``x``; refuses what has no Jacobian."""
        x = check_inputs(x)
        with torch.no_grad():
            labels = self.targets(x, target)
            self.check(x, smooth=True)
            return self._linearize(x, labels)

    def revalue(self, x: Tensor, target: Tensor) -> Tensor:
        """The attribution near points that were checked before: for inner loops."""
        with torch.no_grad():
            return self._value(x, target).detach()

    def relinearize(self, x: Tensor, target: Tensor) -> Linearization:
        """Attribution and Jacobian near points that were checked before: for inner loops."""
        with torch.no_grad():
            return self._linearize(x, target)

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

    def groups(self, x: Tensor) -> Iterator[tuple[Attribution, slice]]:
        """Rows of ``x`` whose graphs fit the memory limit together, each with its attribution."""
        size = self.examples_at_once(x)
        for start in range(0, len(x), size):
            rows = slice(start, min(start + size, len(x)))
            yield self.rows(x, rows), rows

    @abstractmethod
    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""

    @abstractmethod
    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""

    @abstractmethod
    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a model or function that cannot be used on ``x``."""

    @abstractmethod
    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        """g(x)."""

    @abstractmethod
    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        """g(x) and J(x)."""


class ModelAttribution(Attribution):
    """An attribution made of the gradients of a classifier."""

    classifier: Classifier

    def __init__(self, model: Model) -> None:
        self.classifier = Classifier.of(model)

    def targets(self, x: Tensor, target: Target = None) -> Tensor:
        """The label of each example: as given, else the predicted class."""
        return self.classifier.targets(x, target)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        each = self.points * self.classifier.graph_bytes(x)
        return max(1, self.classifier.memory_limit // each)

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a model that cannot be used on ``x``; ``smooth`` asks for second derivatives."""
        self.classifier.check(x, smooth=smooth)
