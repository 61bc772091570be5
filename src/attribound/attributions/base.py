"""What an attribution is: a map g, and its Jacobian as an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from attribound.basics.errors import InputError
from attribound.networks.classifier import Classifier
from attribound.networks.inputs import Target, check_inputs
from attribound.networks.subject import subject_of
from attribound.operators import LinearOperator
from attribound.results import Status
from attribound.values import NO_SETTING, Value, class_of, to_text

if TYPE_CHECKING:
    from typing_extensions import Self

Thing = TypeVar("Thing")
Model = Classifier | Callable[[Tensor], Tensor]


def no_reservations() -> Mapping[Status, Tensor]:
    """Nothing is to be said against the Jacobian."""
    return {}


@dataclass(frozen=True, eq=False)
class Linearization:
    """The attribution ``value`` at x, ``(batch, *scores)``, and its Jacobian there.

    ``jacobian`` holds J with J[i, j] = dg_i / dx_j; ``target`` are the labels explained.
    ``reservations`` says of which examples what is to be said against J, ``(batch,)`` each; it is
    computed when asked for.
    """

    value: Tensor
    jacobian: LinearOperator
    target: Tensor
    reservations: Callable[[], Mapping[Status, Tensor]] = no_reservations


class Attribution(Value, ABC):
    """A differentiable map g from inputs ``(batch, *features)`` to scores ``(batch, *scores)``.

    A frozen dataclass of settings. Without a model it is a recipe, ``Saliency()``; ``of`` gives
    it one, and so does ``Saliency(model)``.

    To add one, derive from :class:`ModelAttribution` and write ``_value`` and
    ``_linearize``, or from :class:`AutogradAttribution` and write ``map``; inputs are
    checked, labels filled in and the model probed before these are called.

    Attributes:
        points: points at which the gradient is taken for one example.
    """

    points: int = 1
    #: Whether :meth:`of` makes it that of another network; not so of a function with one inside.
    follows_model: ClassVar[bool] = True

    @classmethod
    def adopt(cls, thing: object) -> Value | None:
        """A function ``fn(x, target)`` is an attribution, too, and so is an object of Captum's."""
        if any(each.__module__.startswith("captum.") for each in type(thing).__mro__):
            from attribound.attributions.captum import from_captum  # noqa: PLC0415 - made of these

            return from_captum(thing)
        if not callable(thing) or isinstance(thing, (type, nn.Module)):
            return None
        made: Value = class_of("function", cls)(thing)
        return made

    @property
    @abstractmethod
    def classifier(self) -> Classifier | None:
        """The model behind it, if known."""

    @abstractmethod
    def of(self, model: Model) -> Self:
        """The same attribution of ``model``."""

    def recipe(self) -> Self:
        """The same attribution of no model."""
        return self

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

    def revalue_and_predict(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same, and the predicted classes; None without a classifier."""
        known = self.classifier
        return self.revalue(x, target), None if known is None else known.predict(x)

    def relinearize(self, x: Tensor, target: Tensor) -> Linearization:
        """Attribution and Jacobian near points that were checked before: for inner loops."""
        with torch.no_grad():
            return self._linearize(x, target)

    def climbed(self) -> Attribution:
        """What attacks through smooth copies climb in its place: itself unless said otherwise."""
        return self

    def steps_needed(self, x: Tensor, target: Tensor, scores: Tensor) -> Tensor | None:  # noqa: ARG002
        """How many steps would do where its own, with these ``scores``, are too few: ``(batch,)``.

        0 where they are enough, -1 where none that was tried is. None, as here, of what has no
        steps to count.
        """
        return None

    @property
    def subject(self) -> str:
        """Of which network it speaks: the user's own, or a smooth copy of it."""
        return subject_of(None if self.classifier is None else self.classifier.model)

    @property
    def kinked(self) -> bool:
        """Whether a network with kinks was let through."""
        return self.classifier is not None and self.classifier.kinked

    @property
    def reserved(self) -> Status:
        """What is to be said against every bound: of kinks let through, of probabilities."""
        status = Status.KINKED if self.kinked else Status.CONVERGED
        if self.follows_model and self.classifier is not None and self.classifier.ending:
            status |= Status.PROBABILITIES
        return status

    @property
    def crosses_kinks(self) -> bool:
        """Whether its Jacobian is right across kinks of a network, so that no copy is needed."""
        return False

    @property
    def name(self) -> str:
        """What it is called in tables: as it would be written, e.g. ``ig:steps=50``."""
        return getattr(self, "label", None) or to_text(self)

    def rows(self, x: Tensor, rows: slice | Tensor) -> Attribution:  # noqa: ARG002
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


def check_attribution(thing: Thing) -> Thing:
    """``thing``, refused if it is a network, which is no attribution."""
    if isinstance(thing, (nn.Module, Classifier)):
        raise InputError(
            "attribution",
            expected="an attribution of a network",
            got=f"the network itself, {type(thing).__name__}",
            remedy="say which: e.g. attribound.Saliency(model)",
        )
    return thing


def check_baseline(name: str, value: object) -> float | Tensor:
    """A baseline as a number or a tensor, refused unless it is numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    with suppress(TypeError, ValueError, RuntimeError):  # of what holds no numbers
        made = torch.as_tensor(None if isinstance(value, bool) else value)
        return made if made.dim() else float(made)
    raise InputError(
        name,
        expected="a number, or a tensor of the shape of one example",
        got=repr(value),
        remedy=f"use e.g. {name}=0.0, or torch.zeros_like(x[0])",
    )


@dataclass(frozen=True, eq=False)  # compared by settings, those of subclasses included
class ModelAttribution(Attribution):
    """An attribution made of the gradients of a classifier.

    Attributes:
        model: the classifier; None in a recipe. See :class:`Classifier` for its settings.
        label: what it is called in tables; default: as it would be written.
    """

    model: Model | None = field(default=None, repr=False, compare=False, metadata=NO_SETTING)
    label: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Probe the model once, however many attributions it has."""
        if self.model is not None:
            object.__setattr__(self, "model", Classifier.of(self.model))

    @property
    def classifier(self) -> Classifier:
        """The model behind it.

        Raises:
            InputError: this is a recipe.
        """
        if not isinstance(self.model, Classifier):
            raise InputError(
                f"attribution {self.name}",
                expected="one of a model",
                got="a recipe, without a model",
                remedy=f"say whose: {type(self).__name__}(...).of(model)",
            )
        return self.model

    def of(self, model: Model) -> Self:
        """The same attribution of ``model``."""
        return replace(self, model=Classifier.of(model))

    def recipe(self) -> Self:
        """The same attribution of no model."""
        return self if self.model is None else replace(self, model=None)

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
