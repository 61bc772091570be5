"""Steps across the kinks nearest to the input, where the attribution of a ReLU network jumps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.attacks.attack import Attack
from attribound.attacks.judging import judge
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import dot, norm, per_example
from attribound.networks.fast_derivatives import differentiate
from attribound.networks.hinges import hinges
from attribound.networks.inputs import Target
from attribound.results import Attacked
from attribound.values import register

_BEYOND = 0.05  # of the way to a kink, further than it
_SMALLEST = 1e-5  # of the radius, at least so far beyond


@dataclass(frozen=True, eq=False)
class _Crossing:
    """For each example a step across one kink, and how much of the ball's radius it takes."""

    step: Tensor
    reach: Tensor


@register("kink_steps")
@dataclass(frozen=True)
class KinkSteps(Attack):
    """Cross the nearest kinks one after the other, keeping every step that moves the map further.

    A neuron whose argument z is near zero switches when the input moves by about
    ``|z| / |dz/dx|`` in the dual norm. Of each function the neurons with the smallest |z| are
    looked at, and crossed in the order of that distance.

    Attributes:
        kinks: how many neurons are tried.
        seed: not used; there is nothing random in it.
    """

    kinks: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse to try nothing."""
        if self.kinks < 1:
            raise InputError(
                "kinks", expected="1 or more", got=repr(self.kinks), remedy="use e.g. 32"
            )

    def seeded(self, seed: int) -> Attack:
        """The same attack."""
        return replace(self, seed=self.seed + seed)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Try the crossings in the order of their distance."""
        x, labels = self.checked(attribution, x, ball, target)
        if attribution.classifier is None:
            raise InputError(
                f"attribution {attribution.name}",
                expected="one that knows its network, whose kinks are looked for",
                got="one that does not",
                remedy="pass FunctionAttribution(fn, model=...)",
            )
        clean = attribution(x, labels)
        best = torch.zeros_like(x)
        moved = torch.zeros(len(x), dtype=x.dtype, device=x.device)
        crossings = self._crossings(attribution, x, ball)
        for crossing in crossings:
            for start in (best, torch.zeros_like(best)):
                tried = ball.project(start + crossing.step, x)
                here = norm(attribution.revalue(x + tried, labels) - clean)
                better = here > moved
                best = torch.where(per_example(better, best), tried, best)
                moved = torch.where(better, here, moved)
        spent = len(crossings) * (1 + 2 * attribution.points)
        return judge(attribution, x, best, labels, spent)

    def _crossings(self, attribution: Attribution, x: Tensor, ball: Ball) -> list[_Crossing]:
        """Steps across the nearest kinks, for each example the nearest first."""
        assert attribution.classifier is not None
        point = x.detach().clone().requires_grad_()
        arguments = hinges(attribution.classifier, point)
        if not arguments:
            return []
        found = [
            self._crossing(z.gather(1, which.unsqueeze(1)).squeeze(1), point, ball)
            for z, which in _nearest(arguments, self.kinks)
        ]
        order = torch.stack([each.reach for each in found]).argsort(0)
        rows = torch.arange(len(x), device=x.device)
        steps, reaches = (torch.stack([getattr(c, n) for c in found]) for n in ("step", "reach"))
        return [_Crossing(steps[at, rows], reaches[at, rows]) for at in order]

    @staticmethod
    def _crossing(z: Tensor, point: Tensor, ball: Ball) -> _Crossing:
        slope = differentiate(z.sum(), point, retain_graph=True, constant=True)
        with torch.no_grad():
            x = point.detach()
            away = ball.steepest(-torch.sign(per_example(z, slope)) * slope, x)
            gain = dot(slope, away).abs().clamp_min(torch.finfo(x.dtype).tiny)
            length = z.detach().abs() / gain * (1 + _BEYOND) + _SMALLEST * ball.epsilon
            # Beyond the ball there is nothing to cross: then its border.
            length = length.clamp_max(ball.epsilon)
            return _Crossing(away * per_example(length, away), length)


def _nearest(arguments: list[Tensor], count: int) -> list[tuple[Tensor, Tensor]]:
    """For each function its arguments and, one at a time, which neuron of each example is near."""
    near: list[tuple[Tensor, Tensor]] = []
    share = -(-count // len(arguments))
    for z in arguments:
        few = min(share, z.shape[1])
        chosen = z.detach().abs().topk(few, dim=1, largest=False).indices
        near += [(z, chosen[:, i]) for i in range(few)]
    return near[:count] if len(near) > count else near
