"""The largest operator norm of the Jacobian over a ball, searched by ascent.

At a point z of the ball let w be the worst perturbation for J(z) and u the unit
vector along J(z) w. The slope of u . J(z) w in z is, because derivatives commute,
the derivative of J(z)^T u along w: two more Jacobians give it by a central
difference, for every attribution, without third derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attribound.attacks.objectives import Problem
from attribound.attributions import Linearization
from attribound.balls import Ball, Enclosure, enclosure
from attribound.basics.tensors import norm, per_example, unit
from attribound.bounding.first_order.sensitivity import LinearEffort, upper_value
from attribound.operators import LinearOperator
from attribound.spectral import SpectralSolver

_DIFFERENCE = 0.05  # of the worst perturbation, to either side
_STEP = 1.0  # of the radius, at first
_POWER_STEPS = 3
_ROUGH = SpectralSolver(0.1, max_iterations=15, stop="ritz")
#: How far above a rough lower value the upper value at the same point may lie.
_MARGIN = {True: 0.02, False: 0.06}  # by whether p is 2 (or below)


@dataclass(frozen=True, eq=False)
class Supremum:
    """The largest value of max |J(z) delta| that a search over z has seen, per example."""

    value: Tensor
    products: Tensor


@dataclass(frozen=True, eq=False)
class Climb:
    """A search for the supremum over ``shell`` of max |J(x + z) delta| over delta in ``ball``.

    Attributes:
        problem: the examples.
        ball: of the perturbations delta.
        shell: of the points z, the same ball with a smaller radius.
        method: of the upper value at the points found.
    """

    problem: Problem
    ball: Ball
    shell: Ball
    method: LinearEffort

    @cached_property
    def _around(self) -> Enclosure:
        return enclosure(self.ball, self.problem.x)

    def __call__(self, start: Tensor, rounds: int) -> Supremum:
        """Climb from ``start``; each round looks at one point and counts all before it.

        A step that does not rise is taken back and halved. Every decision rests on
        earlier rounds only, so that more rounds never lower the result.
        """
        here = self._linearize(start)
        at_start = upper_value(here, self.ball, self.problem.x, self.method)
        best, worst, products = at_start.value, at_start.delta, at_start.products.clone()
        z, step = start, torch.full_like(best, _STEP * self.shell.epsilon)
        risen = torch.ones_like(best, dtype=torch.bool)
        slope = torch.zeros_like(start)
        height = self._height(here.jacobian, worst)
        for _ in range(rounds):
            if risen.any():  # of these, and only these, ``here`` is the Jacobian at z
                anew = self._slope(z, here.jacobian, worst)
                slope = torch.where(per_example(risen, slope), anew, slope)
                products += 3
            del here  # its graph is not needed beside the next
            uphill = self.ball.steepest(slope, self.problem.x) * per_example(step, slope)
            tried = self.shell.project(z + uphill, self.problem.x)
            here = self._linearize(tried)
            push, spent = self._worst(here.jacobian, worst)
            rough = self._height(here.jacobian, push)
            products += spent + 1
            best = torch.maximum(best, rough)
            promising = (rough * (1 + _MARGIN[self._around.p <= 2]) > best).nonzero().flatten()
            if len(promising):
                part = Linearization(
                    here.value[promising],
                    here.jacobian.select(promising),
                    here.target[promising],
                )
                own = self.ball.rows(self.problem.x, promising)
                upper = upper_value(part, own, self.problem.x[promising], self.method)
                best[promising] = torch.maximum(best[promising], upper.value)
                products[promising.cpu()] += upper.products
            risen = rough > height
            z = torch.where(per_example(risen, z), tried, z)
            worst = torch.where(per_example(risen, worst), push, worst)
            height = torch.maximum(height, rough)
            step = torch.where(risen, step, step / 2)
        return Supremum(best, products)

    @staticmethod
    @torch.no_grad()
    def _height(jacobian: LinearOperator, push: Tensor) -> Tensor:
        return norm(jacobian.matvec(push))

    def _linearize(self, z: Tensor) -> Linearization:
        return self.problem.attribution.relinearize(self.problem.x + z, self.problem.target)

    @torch.no_grad()
    def _slope(self, z: Tensor, jacobian: LinearOperator, worst: Tensor) -> Tensor:
        pushed = unit(jacobian.matvec(worst))
        ahead, behind = (
            self._linearize(z + sign * _DIFFERENCE * worst).jacobian.rmatvec(pushed)
            for sign in (1, -1)
        )
        return ahead - behind

    @torch.no_grad()
    def _worst(self, jacobian: LinearOperator, worst: Tensor) -> tuple[Tensor, Tensor]:
        """A nearly worst perturbation, and the products it took."""
        around = self._around
        if around.p == 2:
            found = _ROUGH(around.scaled(jacobian))
            return around.carried(around.epsilon * found.right), found.products
        for _ in range(_POWER_STEPS):
            uphill = jacobian.rmatvec(jacobian.matvec(worst))
            worst = self.ball.maximiser(uphill, self.problem.x)
            worst = self.ball.clip(worst, self.problem.x)
        return worst, torch.full((len(worst),), 2 * _POWER_STEPS)
