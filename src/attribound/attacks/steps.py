"""Step rules and starting points, as values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from attribound.attacks.objectives import Problem
from attribound.balls import Ball
from attribound.balls.sampling import normal
from attribound.basics.errors import InputError
from attribound.basics.tensors import per_example
from attribound.spectral import SpectralSolver
from attribound.values import Value, register


@dataclass(frozen=True, eq=False)
class Here:
    """Where an attack is.

    Attributes:
        x: the input.
        delta: its perturbation.
        slope: of the objective there.
    """

    x: Tensor
    delta: Tensor
    slope: Tensor


class StepRule(Value, ABC):
    """Where to go from a perturbation, given the slope there."""

    #: Whether a climb that no longer gains is over: it would go in circles.
    comes_to_rest: ClassVar[bool] = False

    @abstractmethod
    def move(self, ball: Ball, here: Here, steps: int) -> Tensor:
        """The next perturbation, before projection."""


@register("ascend")
@dataclass(frozen=True)
class Ascend(StepRule):
    """A step in the steepest direction of the ball's own norm: sign for the cube, unit for l2.

    Attributes:
        size: length of the step in that norm; default 2.5 epsilon / steps.
    """

    size: float | None = None

    def __post_init__(self) -> None:
        """Refuse a step that goes nowhere."""
        if self.size is not None and not self.size > 0:
            raise InputError(
                "step size",
                expected="a number above 0",
                got=repr(self.size),
                remedy="leave it out for 2.5 epsilon / steps",
            )

    def move(self, ball: Ball, here: Here, steps: int) -> Tensor:
        """``delta`` plus the step."""
        size = 2.5 * ball.epsilon / steps if self.size is None else self.size
        return here.delta + size * ball.steepest(here.slope, here.x)


@register("jump")
@dataclass(frozen=True)
class Jump(StepRule):
    """Frank-Wolfe without a step size: the point of the ball that is best for the slope."""

    comes_to_rest: ClassVar[bool] = True

    def move(self, ball: Ball, here: Here, steps: int) -> Tensor:  # noqa: ARG002
        """The maximiser of the slope; where there is none, stay."""
        flat = here.slope.flatten(1).abs().amax(1) == 0
        still = per_example(flat, here.slope)
        return torch.where(still, here.delta, ball.maximiser(here.slope, here.x))


@dataclass(frozen=True, eq=False)
class Beginning:
    """First perturbations, one search from each, and the model gradients they cost an example."""

    deltas: list[Tensor]
    evaluations: int = 0


class Start(Value, ABC):
    """Where an attack begins."""

    #: Whether it depends on the seed.
    random: ClassVar[bool] = True

    @abstractmethod
    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:
        """The first perturbations, before projection."""


@register("at_input")
@dataclass(frozen=True)
class AtInput(Start):
    """The input itself."""

    random: ClassVar[bool] = False

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:  # noqa: ARG002
        """Zero."""
        return Beginning([torch.zeros_like(problem.x)])


@register("in_ball")
@dataclass(frozen=True)
class InBall(Start):
    """Points drawn uniformly from the ball.

    Attributes:
        count: how many.
    """

    count: int = 1

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:
        """The draws of this seed and example."""
        return Beginning([ball.sample(problem.x, seed + 1000 * i) for i in range(self.count)])


@register("nearby")
@dataclass(frozen=True)
class Nearby(Start):
    """Normal noise around the input, as TRADES starts.

    Attributes:
        sigma: its standard deviation.
    """

    sigma: float = 1e-3

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:  # noqa: ARG002
        """The draw of this seed and example."""
        return Beginning([self.sigma * normal(problem.x, seed)])


@register("linear_optimum")
@dataclass(frozen=True)
class LinearOptimum(Start):
    """Plus and minus the top singular vector of the Jacobian, carried to the sphere.

    Attributes:
        solver: finds the vector; a rough one is enough.
    """

    random: ClassVar[bool] = False
    solver: SpectralSolver = field(
        default_factory=lambda: SpectralSolver(0.1, max_iterations=20, stop="ritz")
    )

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:  # noqa: ARG002
        """Both maximisers of the top singular vector."""
        at_x = problem.attribution.relinearize(problem.x, problem.target)
        top = self.solver(at_x.jacobian)
        spent = (1 + int(top.products.max())) * problem.attribution.points
        return Beginning([ball.maximiser(sign * top.right, problem.x) for sign in (1, -1)], spent)
