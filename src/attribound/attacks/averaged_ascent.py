"""Attack an averaged map: climb with few draws, judge with many others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.attacks.attack import Attack
from attribound.attacks.attribution_ascent import AttributionAscent
from attribound.attacks.judging import judge
from attribound.attributions import Attribution
from attribound.attributions.averaged import Averaged
from attribound.balls import Ball
from attribound.basics.errors import AttriboundError, InputError
from attribound.basics.tensors import per_example
from attribound.networks.inputs import Target
from attribound.results import Attacked
from attribound.values import register

_JUDGING = 7919  # far from the seeds that are climbed with
_ROUNDS = 6


@register("averaged_ascent")
@dataclass(frozen=True)
class AveragedAscent(Attack):
    """The best of a few perturbations of an averaged map, judged on draws of their own.

    Climbed are the averages of smooth copies of the network (where there are such copies and
    slopes), and the slope of the average itself, which is the mean of map times noise and needs
    no derivatives. What is best on the climbing draws is judged on others, the same before and
    after the perturbation, by products of two halves: so that the noise of the draws itself
    does not count as movement. What is left of it goes both ways.

    Attributes:
        ascent: climbs smooth copies.
        betas: of these.
        climbing: draws to climb with.
        judging: draws to judge with.
        seed: of the draws.
    """

    ascent: Attack = AttributionAscent(steps=3)  # noqa: RUF009 - frozen
    betas: tuple[float, ...] = (50.0,)
    climbing: int = 64
    judging: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse too few draws."""
        if self.climbing < 2 or self.judging < 2:
            raise InputError(
                "AveragedAscent",
                expected="2 draws or more to climb and to judge with",
                got=f"climbing={self.climbing!r}, judging={self.judging!r}",
                remedy="use e.g. climbing=64, judging=1000",
            )

    def seeded(self, seed: int) -> Attack:
        """The same attack with ``seed`` added to its own."""
        return replace(self, seed=self.seed + seed)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Climb and judge each example."""
        x, labels = self.checked(attribution, x, ball, target)
        if not isinstance(attribution, Averaged):
            raise InputError(
                f"attribution {attribution.name}",
                expected="an averaged one",
                got=type(attribution).__name__,
                remedy="attack Averaged(attribution, sigma), or use another attack",
            )
        few = replace(attribution, draws=self.climbing, seed=self.seed)
        best, most = torch.zeros_like(x), x.new_full((len(x),), -1.0)
        for delta in self._candidates(few, x, ball, labels):
            turned = paired(few, x, delta, labels)[1]
            best = torch.where(per_example(turned > most, best), delta, best)
            most = torch.maximum(most, turned)
        many = replace(attribution, draws=self.judging, seed=self.seed + _JUDGING)
        deviation, degrees = paired(many, x, best, labels)
        plain = judge(attribution.base, x, best, labels)
        return replace(
            plain,
            deviation=deviation,
            degrees=degrees,
            cosine=2 * torch.sin(torch.deg2rad(degrees) / 2) ** 2,
            evaluations=2 * self.judging + 10 * self.climbing,
            subject=attribution.subject,
        )

    def _candidates(self, few: Averaged, x: Tensor, ball: Ball, labels: Tensor) -> Iterator[Tensor]:
        if self.betas:
            # Without copies or slopes there are the others, which need neither.
            with suppress(AttriboundError):
                yield self.ascent.through(*self.betas)(few, x, ball, labels).delta
        rows = [slice(i, i + 1) for i in range(len(x))]
        steep = torch.cat([self._steepest(few, x, ball, labels, row) for row in rows])
        for delta in (steep, -steep, ball.sample_sphere(x, self.seed)):
            yield ball.project(delta, x)

    def _steepest(self, few: Averaged, x: Tensor, ball: Ball, labels: Tensor, row: slice) -> Tensor:
        """Where the mean of map times noise, which is the slope of the average, is steepest."""
        part = few.rows(x, row)
        assert isinstance(part, Averaged)
        own, one = ball.rows(x, row), x[row]
        drawn = [*replace(part, draws=4 * self.climbing).vectors(one, labels[row])]
        maps = torch.cat([each for _, each in drawn]).cpu()
        maps = maps - maps.mean(0)
        noise = torch.cat([torch.from_numpy(each) for each, _ in drawn])
        scale = noise.std(0).clamp_min(1e-12) ** 2
        weights = torch.where(noise.abs().amax(0) > 0, 1 / scale, 0.0)
        delta = own.sample_sphere(one, self.seed)
        for _ in range(_ROUNDS):
            moved = maps.T @ ((noise * weights) @ delta.detach().cpu().double().flatten())
            slope = ((maps @ moved) @ noise) * weights
            delta = own.maximiser(slope.to(one).view_as(one), one)
        return delta


def paired(
    attribution: Averaged, x: Tensor, delta: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """Distance and angle of the averages at ``x`` and ``x + delta``, by halves of the draws.

    With h and d the averages before and of the change, products of independent halves estimate
    |h|^2, |d|^2 and h . d without the bias that the squares of one sample have.
    """
    halves = [replace(attribution, draws=attribution.draws // 2, seed=attribution.seed)]
    halves.append(replace(halves[0], seed=attribution.seed + 1))
    before = [each.revalue(x, target).double().flatten(1) for each in halves]
    after = [each.revalue(x + delta, target).double().flatten(1) for each in halves]
    change = [b - a for a, b in zip(before, after, strict=True)]
    length = (before[0] * before[1]).sum(1).clamp_min(0).sqrt()
    square = (change[0] * change[1]).sum(1).clamp_min(0)
    along = ((before[0] * change[1]).sum(1) + (before[1] * change[0]).sum(1)) / 2
    along = along / length.clamp_min(1e-12)
    across = (square - along**2).clamp_min(0).sqrt()
    degrees = torch.rad2deg(torch.atan2(across, length + along))
    return square.sqrt().to(x), torch.where(length > 0, degrees, 180.0).to(x)
