"""Attack the attribution itself: ascent on its deviation, without a step size."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.attributions.inputs import Target, check_inputs
from attribound.balls import LpBall
from attribound.errors import InputError
from attribound.results import Attacked
from attribound.spectral import SpectralSolver
from attribound.tensors import angle_degrees, norm, per_example


@dataclass(frozen=True)
class AttributionAscent:
    """Frank-Wolfe ascent on |g(x + delta) - g(x)|_2 from plus and minus the linearised optimum.

    Each step moves to the point of the ball that is best for the local slope
    ``J(x + delta)^T (g(x + delta) - g(x))``; the best point seen is returned. The
    label is not constrained, only reported.

    Attributes:
        steps: from each of the two starts.
        solver: finds the start; a rough one is enough.
    """

    steps: int = 12
    solver: SpectralSolver = field(default_factory=lambda: SpectralSolver(0.1, stop="ritz"))

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: LpBall, target: Target = None
    ) -> Attacked:
        """Attack each example of ``x``."""
        if self.steps < 0:
            raise InputError(
                "steps", expected="0 or more", got=repr(self.steps), remedy="use e.g. 12"
            )
        x = check_inputs(x)
        at_x = attribution.linearize(x, target)
        clean = at_x.value
        top = self.solver(at_x.jacobian).right
        best = torch.zeros_like(x)
        record = torch.zeros_like(norm(x))
        for sign in (1, -1):
            delta = ball.maximiser(sign * top)
            for step in range(self.steps + 1):
                if step < self.steps:
                    here = attribution.linearize(x + delta, at_x.target)
                    value = here.value
                else:
                    value = attribution(x + delta, at_x.target)
                change = value - clean
                better = norm(change) > record
                record = torch.where(better, norm(change), record)
                best = torch.where(per_example(better, best), delta, best)
                if step < self.steps:
                    with torch.no_grad():
                        delta = ball.maximiser(here.jacobian.rmatvec(change))
        return attacked(attribution, x, at_x.target, best, evaluations=2 * (2 * self.steps + 1))


def attacked(
    attribution: Attribution, x: Tensor, target: Tensor, delta: Tensor, evaluations: int
) -> Attacked:
    """Judge perturbations: how far they move the attribution, and whether the label stays."""
    before, after = attribution(x, target), attribution(x + delta, target)
    degrees = angle_degrees(before, after)
    undefined = (norm(before) == 0) | (norm(after) == 0)
    cosine = 1 - torch.cos(torch.deg2rad(degrees))
    kept = None
    if attribution.classifier is not None:
        kept = attribution.targets(x + delta) == attribution.targets(x)
    return Attacked(
        delta=delta,
        deviation=norm(after - before),
        cosine=torch.where(undefined, torch.full_like(cosine, 2.0), cosine),
        degrees=degrees,
        label_kept=kept,
        evaluations=evaluations,
    )
