"""What an attack climbs: losses of the prediction, or measures on attribution maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from attribound.attributions import Attribution, Classifier
from attribound.basics.errors import InputError
from attribound.values import Value, register


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An objective at some points: per example, and its slope if that was asked for."""

    score: Tensor
    slope: Tensor | None
    measure: Tensor  # by which the best iterate is chosen


@dataclass(frozen=True, eq=False)
class Problem:
    """The examples under attack, checked.

    Attributes:
        clean: attribution of ``x``.
        target: the labels explained.
    """

    attribution: Attribution
    x: Tensor
    target: Tensor
    clean: Tensor
    _among: tuple[Problem, Tensor] | None = None  # the problem whose rows these are, and which

    def rows(self, rows: Tensor) -> Problem:
        """The problem of some examples, any of them more than once."""
        x, target, clean = self.x[rows], self.target[rows], self.clean[rows]
        return Problem(self.attribution.rows(self.x, rows), x, target, clean, (self, rows))

    @property
    def classifier(self) -> Classifier:
        """The classifier behind the attribution; refused if there is none."""
        if self.attribution.classifier is None:
            raise InputError(
                "attribution",
                expected="one that knows its classifier, for this attack looks at predictions",
                got=self.attribution.name,
                remedy="pass FunctionAttribution(fn, model=...)",
            )
        return self.attribution.classifier

    @cached_property
    def clean_logits(self) -> Tensor:
        """The logits of ``x``, computed when first asked for."""
        if self._among is not None:
            problem, rows = self._among
            return problem.clean_logits[rows]
        with torch.no_grad():
            return self.classifier.logits(self.x)


class Objective(Value, ABC):
    """A score per example to be made large."""

    @abstractmethod
    def cost(self, problem: Problem) -> int:
        """Gradients of the model that one slope costs for one example."""

    def examples_at_once(self, problem: Problem) -> int:
        """How many examples can be evaluated together within the memory limit."""
        return problem.attribution.examples_at_once(problem.x)

    @abstractmethod
    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        """The score at ``points``, and its slope there if asked for."""


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _cross_entropy(logits: Tensor, _clean: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(logits, target, reduction="none")


def _kl(logits: Tensor, clean: Tensor, _target: Tensor) -> Tensor:
    """KL(p(x) || p(x')), the inner loss of TRADES."""
    before, after = log_softmax(clean, 1), log_softmax(logits, 1)
    return kl_div(after, before, reduction="none", log_target=True).sum(1)


def _margin(logits: Tensor, _clean: Tensor, target: Tensor) -> Tensor:
    """Best other logit minus that of the target."""
    own = logits.gather(1, target.unsqueeze(1))[:, 0]
    return logits.scatter(1, target.unsqueeze(1), -torch.inf).amax(1) - own


LOSSES: dict[str, Loss] = {"cross_entropy": _cross_entropy, "kl": _kl, "margin": _margin}


@register("prediction_loss")
@dataclass(frozen=True)
class PredictionLoss(Objective):
    """A loss of the prediction: ``cross_entropy``, ``kl`` or ``margin``."""

    name: str = "cross_entropy"

    def __post_init__(self) -> None:
        """Refuse an unknown loss."""
        if not isinstance(self.name, str) or self.name not in LOSSES:
            raise InputError(
                "loss",
                expected=f"one of {', '.join(LOSSES)}",
                got=repr(self.name),
                remedy="cross_entropy is the usual one",
            )

    def cost(self, problem: Problem) -> int:  # noqa: ARG002
        """One gradient."""
        return 1

    def examples_at_once(self, problem: Problem) -> int:
        """As many as points of an attribution: there is one gradient an example."""
        return problem.attribution.points * problem.attribution.examples_at_once(problem.x)

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        """The loss and its gradient."""
        clean = problem.clean_logits if self.name == "kl" else problem.x

        def loss(logits: Tensor) -> Tensor:
            return LOSSES[self.name](logits, clean, problem.target)

        if slope:
            score, steep = problem.classifier.loss_slope(points, loss)
            return Evaluation(score, steep, score)
        with torch.no_grad():
            score = loss(problem.classifier.logits(points))
        return Evaluation(score, None, score)


class MapObjective(Objective):
    """A differentiable measure of the attribution map at x' against the clean one."""

    @abstractmethod
    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """The score per example, differentiable in ``after``."""

    def measure(self, after: Tensor, before: Tensor) -> Tensor:
        """What the best iterate has most of; the score unless said otherwise."""
        return self.score(after, before)

    def cost(self, problem: Problem) -> int:
        """The attribution and one product with its Jacobian."""
        return 2 * problem.attribution.points

    def evaluate(self, problem: Problem, points: Tensor, *, slope: bool) -> Evaluation:
        """The score, and J^T times its gradient on the map."""
        steep = None
        if slope:
            here = problem.attribution.relinearize(points, problem.target)
            after = here.value.detach().requires_grad_()
            with torch.enable_grad():
                score = self.score(after, problem.clean)
                (on_map,) = torch.autograd.grad(score.sum(), after)
            with torch.no_grad():
                steep = here.jacobian.rmatvec(on_map)
            after = after.detach()
        else:
            after = problem.attribution.revalue(points, problem.target)
        with torch.no_grad():
            return Evaluation(
                self.score(after, problem.clean), steep, self.measure(after, problem.clean)
            )
