"""Attack a short list of reasons: make its members leave the top k."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from attribound.attacks.attack import SearchAttack
from attribound.attacks.engine import Search
from attribound.attacks.objectives import MapObjective, Problem
from attribound.attacks.steps import Beginning, InBall, Jump, LinearOptimum, Start
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.numbers import is_count
from attribound.basics.tensors import dot
from attribound.values import NO_SETTING, register

By = Literal["value", "absolute"]


def sizes(scores: Tensor, by: By) -> Tensor:
    """What scores are ranked by, ``(batch, scores)``: themselves or their absolute values."""
    flat = scores.flatten(1)
    return flat.abs() if by == "absolute" else flat


def first_of(scores: Tensor, k: int, by: By) -> Tensor:
    """The places of the k largest in each flattened map, the largest first, ``(batch, k)``.

    Of equals the first: a set that was asked for twice is the same.
    """
    flat = sizes(scores, by)
    if by not in ("value", "absolute"):
        raise InputError(
            "by",
            expected="'value' or 'absolute'",
            got=repr(by),
            remedy="rank by signed scores or by their absolute values",
        )
    most = flat.shape[1] - 1
    if not is_count(k) or k > most:
        raise InputError(
            "k",
            expected=f"a whole number from 1 to {most}, fewer than there are scores"
            if most
            else "maps of more than one score, of which some are the largest",
            got=repr(k) if most else "one score",
            remedy="credit notices give at most 4 reasons"
            if most
            else "attribound.bound says how far one score moves",
        )
    return flat.argsort(dim=1, descending=True, stable=True)[:, :k]


@register("displaced")
@dataclass(frozen=True)
class Displaced(MapObjective):
    """The strongest rivals against the weakest members of the clean top k.

    Attributes:
        k: how many scores are on the list.
        by: ``value`` or ``absolute``.
        leaving: how many members at once; their mean is compared with that of as many rivals.
    """

    k: int = 4
    by: By = "value"
    leaving: int = 1

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """Mean of the strongest rivals minus that of the weakest members."""
        top = first_of(before, self.k, self.by)
        now = sizes(after, self.by)
        few = max(1, min(self.leaving, self.k, now.shape[1] - self.k))
        members = now.gather(1, top).topk(few, largest=False).values
        rivals = now.scatter(1, top, -torch.inf).topk(few).values
        return rivals.mean(1) - members.mean(1)

    def measure(self, after: Tensor, before: Tensor) -> Tensor:
        """How many members have left the top k."""
        return self.k - staying(after, before, self.k, self.by).to(after)


def staying(after: Tensor, before: Tensor, k: int, by: By) -> Tensor:
    """How many of the clean top k are among the top k of other maps, ``(batch,)``."""
    top, now = first_of(before, k, by), first_of(after, k, by)
    return (top.unsqueeze(2) == now.unsqueeze(1)).any(2).sum(1)


@register("towards_rivals")
@dataclass(frozen=True)
class TowardsRivals(Start):
    """Where, to first order, a member of the list falls behind a rival: the easiest such pairs.

    Attributes:
        k, by: the list.
        count: how many pairs.
    """

    random: ClassVar[bool] = False
    k: int = 4
    by: By = "value"
    count: int = 4

    def begin(self, problem: Problem, ball: Ball, seed: int) -> Beginning:  # noqa: ARG002
        """The maximisers of the chosen pairs."""
        at_x = problem.attribution.relinearize(problem.x, problem.target)
        flat = problem.clean.flatten(1)
        few = min(2 * self.k, flat.shape[1])
        places = first_of(problem.clean, self.k, self.by)
        others = sizes(problem.clean, self.by).scatter(1, places, -torch.inf)
        places = torch.cat([places, others.topk(few - self.k).indices], 1)
        scores = flat.gather(1, places)
        signs = torch.where(scores < 0, -1.0, 1.0).to(scores)
        if self.by == "value":
            signs = torch.ones_like(signs)
        rows = []
        for number in range(few):
            basis = torch.zeros_like(flat).scatter(1, places[:, [number]], signs[:, [number]])
            rows.append(at_x.jacobian.rmatvec(basis.view_as(at_x.jacobian.range)))
        gains, deltas = [], []
        for member in range(self.k):
            for rival in range(self.k, few):
                slope = rows[rival] - rows[member]
                deltas.append(ball.maximiser(slope, problem.x))
                margin = (signs * scores)[:, member] - (signs * scores)[:, rival]
                gains.append(dot(slope, deltas[-1]) - margin)
        best = torch.stack(gains).argsort(dim=0, descending=True)[: self.count]
        every, batch = torch.stack(deltas), torch.arange(len(flat), device=flat.device)
        spent = (1 + few) * problem.attribution.points
        return Beginning([every[which, batch] for which in best], spent)


@register("displace")
@dataclass(frozen=True)
class Displace(SearchAttack):
    """Make members of the top k leave it: climb the margin of rivals over the weakest of them.

    Of all points that were looked at the one with most members gone is returned, of equals the
    one with the largest margin.

    Attributes:
        k: how many scores are on the list.
        by: ``value`` or ``absolute``.
        leaving: how many members are pushed at once.
        steps: from each start.
        pairs: starts at the easiest pairs of a member and a rival.
        random_starts: besides those and both top singular vectors.
    """

    k: int = 4
    by: By = "value"
    leaving: int = 1
    steps: int = 12
    pairs: int = 4
    random_starts: int = 2
    seed: int = 0
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    @property
    def search(self) -> Search:
        """Ascent from pairs, linear optima and random points."""
        starts: tuple[Start, ...] = (LinearOptimum(),)
        if self.pairs:
            starts += (TowardsRivals(self.k, self.by, self.pairs),)
        if self.random_starts:
            starts += (InBall(self.random_starts),)
        objective = Displaced(self.k, self.by, self.leaving)
        return Search(objective, Jump(), starts, "best", self.steps)
