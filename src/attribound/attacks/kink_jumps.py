"""Begin where the attribution of a ReLU network jumps most: at the kinks in reach."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.attacks.attack import Attack
from attribound.attacks.engine import Search
from attribound.attacks.judging import judge
from attribound.attacks.measures import Distance
from attribound.attacks.objectives import Problem
from attribound.attacks.steps import Beginning, Jump, Start
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm, per_example
from attribound.networks.classifier import Classifier
from attribound.networks.fast_derivatives import differentiate
from attribound.networks.hinges import weighed_hinges
from attribound.networks.inputs import Target
from attribound.results import Attacked
from attribound.values import register

_PROBES = 8  # points of the ball at which it is seen how far arguments move
_WITHIN = 2.0  # times what a neuron is thought to move: further off it is not in reach
_CORRECTIONS = 60  # of a perturbation that is to cross several kinks
_BEYOND = 0.05  # of the way to a kink, further than it
_NO_SLOPE = 1e-12  # of the steepest argument: such a neuron does not move


@register("at_kinks")
@dataclass(frozen=True)
class AtKinks(Start):
    """Points of the ball's border, towards the kinks that matter and towards several at once.

    Of each example the neurons are taken that the ball can switch, those first at which the
    gradient jumps most. Neurons are chosen by how far their arguments move at a few points of the
    ball, so that this takes a gradient for those that are chosen, however many there are.

    Attributes:
        count: how many neurons.
    """

    count: int = 16

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:
        """The input itself where there are no kinks."""
        ways = towards_kinks(problem.classifier, problem, ball, self.count, seed)
        if not ways:
            return Beginning([torch.zeros_like(problem.x)])
        return Beginning(_starts(ways, ball, problem.x), len(ways) + _PROBES)


@dataclass(frozen=True, eq=False)
class Way:
    """For each example the way to a kink: the slope of its argument, and how far off it is."""

    slope: Tensor  # towards the kink
    distance: Tensor  # of the argument from zero


def towards_kinks(
    classifier: Classifier, problem: Problem, ball: Ball, count: int, seed: int = 0
) -> list[Way]:
    """The ways to the ``count`` kinks in reach that matter most, for each example."""
    x = problem.x
    point = x.detach().clone().requires_grad_()
    z, weights = weighed_hinges(classifier, point, problem.target)
    if not z.shape[1]:
        return []
    with torch.no_grad():
        moved = torch.zeros_like(z)
        for probe in range(_PROBES):
            near = x + ball.project(ball.sample(x, seed + 7919 * (probe + 1)), x)
            there, _ = weighed_hinges(classifier, near.requires_grad_(), problem.target)
            moved += (there.detach() - z.detach()).square()
        # A direction of its own moves a neuron about so much further than one of many at random.
        reach = (moved * x[0].numel() / _PROBES).sqrt()
        score = weights.abs() * reach
        score[z.detach().abs() > _WITHIN * reach] = 0.0
        chosen = score.topk(min(count, z.shape[1]), dim=1).indices
    ways, (least, most) = [], ball.limits(x)
    for column in chosen.unbind(1):
        argument = z.gather(1, column.unsqueeze(1)).squeeze(1)
        slope = differentiate(argument.sum(), point, retain_graph=True, constant=True)
        slope = slope * per_example(torch.where(argument.detach() > 0, -1.0, 1.0), slope)
        # Where a feature can't move that way it is no help.
        slope = torch.where(torch.where(slope > 0, most, -least) > 0, slope, 0.0)
        ways.append(Way(slope, argument.detach().abs()))
    return ways


def _starts(ways: list[Way], ball: Ball, x: Tensor) -> list[Tensor]:
    """Furthest towards each kink, and towards the first two, three, ... together."""
    units = [_unit(way.slope) for way in ways]
    several = torch.stack(units).cumsum(0)[1:]
    return [ball.project(ball.maximiser(way, x), x) for way in (*units, *several)]


def _unit(slope: Tensor) -> Tensor:
    return slope / per_example(norm(slope).clamp_min(torch.finfo(slope.dtype).tiny), slope)


@dataclass(eq=False)
class _Hunt:
    """The best perturbation of each example so far."""

    problem: Problem
    ball: Ball
    best: Tensor
    moved: Tensor

    def offer(self, tried: Tensor) -> Tensor:
        """Keep it where the map moves further; where that is."""
        problem = self.problem
        there = problem.attribution.revalue(problem.x + tried, problem.target)
        here = norm(there - problem.clean)
        better = here > self.moved
        self.best = torch.where(per_example(better, tried), tried, self.best)
        self.moved = torch.where(better, here, self.moved)
        return better

    def collect(self, ways: list[Way]) -> None:
        """Cross one kink after the other, then keep off those that were crossed by the way.

        What is decided for some kinks is asked of one perturbation, to first order.
        """
        slopes = torch.stack([way.slope.flatten(1) for way in ways], 1)
        offs = torch.stack([way.distance for way in ways], 1)
        # The nearest first: they leave most of the ball for others.
        order = (offs / slopes.norm(dim=2).clamp_min(torch.finfo(offs.dtype).tiny)).argsort(1)
        offs = offs.gather(1, order)
        slopes = slopes.gather(1, order.unsqueeze(2).expand_as(slopes))
        wanted = torch.zeros_like(offs)  # 1: cross it, -1: keep off, 0: whatever
        for side in (1.0, -1.0):
            for i in range(len(ways)):
                asked = wanted.clone()
                asked[:, i] = torch.where(wanted[:, i] == 0, side, wanted[:, i])
                near = self._meeting(asked, slopes, offs)
                better = self.offer(self.ball.project(near, self.problem.x))
                better |= self.offer(self._border(near))
                wanted = torch.where(better.unsqueeze(1), asked, wanted)

    def _border(self, way: Tensor) -> Tensor:
        return self.ball.project(self.ball.maximiser(way, self.problem.x), self.problem.x)

    def _meeting(self, wanted: Tensor, slopes: Tensor, offs: Tensor) -> Tensor:
        """The shortest perturbation that does what is wanted, by accelerated steps on its dual."""
        lengths = slopes.norm(dim=2)
        # No perturbation crosses a kink without a slope: it asks for nothing.
        wanted = wanted * (lengths > _NO_SLOPE * lengths.amax(1, keepdim=True))
        lengths = lengths.clamp_min(torch.finfo(slopes.dtype).tiny)
        rows = wanted.unsqueeze(2) * slopes / lengths.unsqueeze(2)
        need = torch.where(wanted == 0, 0.0, (wanted + _BEYOND) * offs / lengths)
        gram = rows @ rows.transpose(1, 2)
        size = gram.abs().sum(2).amax(1, keepdim=True).clamp_min(1e-12)
        weights = ahead = torch.zeros_like(need)
        for step in range(_CORRECTIONS):
            slope = need - torch.einsum("bij,bj->bi", gram, ahead)
            new = (ahead + slope / size).clamp_min(0)
            ahead = new + step / (step + 3) * (new - weights)
            weights = new
        return torch.einsum("bk,bkd->bd", weights, rows).view_as(self.problem.x)


@register("kink_jumps")
@dataclass(frozen=True)
class KinkJumps(Attack):
    """Go to the kinks in reach at which the map jumps most, alone and together.

    Maps that can be differentiated across kinks (exact integrated gradients) are climbed from
    there. Of others every kink is added to the best perturbation so far, by the shortest step
    across it, and kept if the map moves further.

    Attributes:
        kinks: how many neurons are tried.
        steps: of a climb from each.
        seed: of the points at which it is seen how far neurons move.
    """

    kinks: int = 32
    steps: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse to try nothing."""
        if self.kinks < 1 or self.steps < 0:
            raise InputError(
                "kink_jumps",
                expected="1 or more kinks and 0 or more steps",
                got=f"kinks={self.kinks!r}, steps={self.steps!r}",
                remedy="use e.g. kinks=32, steps=4",
            )

    def seeded(self, seed: int) -> Attack:
        """The same attack with ``seed`` added to its own."""
        return replace(self, seed=self.seed + seed)

    def __call__(
        self, attribution: Attribution, x: Tensor, ball: Ball, target: Target = None
    ) -> Attacked:
        """Climb from the kinks, or collect them one after the other."""
        x, labels = self.checked(attribution, x, ball, target)
        if attribution.crosses_kinks:
            return self._climbed(attribution, x, ball, labels)
        problem = Problem(attribution, x, labels, attribution(x, labels))
        ways = towards_kinks(problem.classifier, problem, ball, self.kinks, self.seed)
        hunt = _Hunt(problem, ball, torch.zeros_like(x), x.new_zeros(len(x)))
        if ways:
            for start in _starts(ways, ball, x):
                hunt.offer(start)
            hunt.collect(ways)
        spent = _PROBES + len(ways) * (1 + 6 * attribution.points)
        return judge(attribution, x, hunt.best, labels, spent)

    def _climbed(self, attribution: Attribution, x: Tensor, ball: Ball, labels: Tensor) -> Attacked:
        search = Search(Distance(), Jump(), (AtKinks(self.kinks),), "best", self.steps)
        deltas, spent = [], 0
        for part, rows in attribution.groups(x):
            clean = part(x[rows], labels[rows])
            problem = Problem(part, x[rows], labels[rows], clean)
            found = search.run(problem, ball.rows(x, rows), self.seed, progress=False)
            deltas.append(found.delta)
            spent = max(spent, found.evaluations)
        return judge(attribution, x, torch.cat(deltas), labels, spent)
