"""An attack of a user's own: the best of some random corners."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

import attribound as ab


@dataclass(frozen=True)
class Shake(ab.attacks.Attack):
    """Draws from the border of the ball; the furthest moved counts.

    Attributes:
        draws: how many.
        seed: of the first.
    """

    draws: int = 4
    seed: int = 0

    def seeded(self, seed: int) -> ab.attacks.Attack:
        """The same with other draws."""
        return replace(self, seed=self.seed + seed)

    def __call__(
        self,
        attribution: ab.Attribution,
        x: Tensor,
        ball: ab.Ball,
        target: Tensor | int | None = None,
    ) -> ab.Attacked:
        """Draw, project, judge."""
        seeds = range(self.seed, self.seed + self.draws)
        every = [ball.project(ball.sample_sphere(x, seed), x) for seed in seeds]
        judged = [ab.attacks.judge(attribution, x, delta, target, 1) for delta in every]
        return ab.attacks.furthest(judged)
