"""Perturb at random: what an attack must beat."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from attribound.attacks.attack import Attack
from attribound.attacks.judging import judge
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.networks.inputs import Target
from attribound.results import Attacked
from attribound.values import register


@register("random")
@dataclass(frozen=True)
class RandomPerturbation(Attack):
    """One draw from the sphere of the ball (a corner of the cube)."""

    seed: int = 0

    def seeded(self, seed: int) -> Attack:
        """The same attack with ``seed`` added to its own."""
        return replace(self, seed=self.seed + seed)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Draw and judge."""
        x, labels = self.checked(attribution, x, ball, target)
        delta = ball.project(ball.sample_sphere(x, self.seed), x)
        return judge(attribution, x, delta, labels)
