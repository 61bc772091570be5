"""What provably stays in an averaged map: members of the top, signs, orders, regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attribound.attributions.noise import Normaliser
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tables import cell, render
from attribound.bounding.smoothed.averaging import ExampleAverage
from attribound.bounding.smoothed.drawing import Source
from attribound.bounding.smoothed.reach import Reach
from attribound.bounding.smoothed.scalars import (
    lower_values,
    pair,
    region,
    sign,
    stays_positive,
)
from attribound.bounding.smoothed.votes import Votes

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class AveragedReasons:
    """What stays in the averaged map at every perturbation in the ball, per example.

    Everything said of an example holds together with probability 1 - alpha over its draws.

    Attributes:
        ball: of the perturbations.
        k: scores that each draw votes for.
        inside, outside: scores that a majority of the draws surely has, or has not, among its k
            largest, ``(batch, *scores)``; the others are open.
        overlap: of the k scores with the most votes so many surely keep that rank.
        signs: 1 or -1 where the average surely keeps that sign, else 0; None if not asked for.
        pairs: of each pair (i, j) asked for whether |h_i| surely stays above |h_j|.
        regions: of each region asked for whether its scores, with the signs that the first draws
            gave them, surely add up to more than zero.
        subject: whose map it is.
        alpha: probability of failure of each example.
    """

    ball: Ball
    k: int
    inside: Tensor
    outside: Tensor
    overlap: Tensor
    signs: Tensor | None
    pairs: Tensor
    regions: Tensor
    subject: str
    alpha: float

    def __repr__(self) -> str:
        kept = (flags.flatten(1).sum(1).tolist() for flags in (self.inside, self.outside))
        signs = ["?"] * len(self.overlap)
        if self.signs is not None:
            signs = [str(int(each)) for each in (self.signs != 0).flatten(1).sum(1)]
        rows = list(zip(*kept, self.overlap.tolist(), signs, strict=True))
        title = (
            f"What stays in {self.subject}, {self.ball.name} ball of radius "
            f"{cell(self.ball.epsilon)}, top {self.k} of {self.inside[0].numel()}, "
            f"claim: certified (smoothed), alpha {self.alpha:g}"
        )
        return render(title, ["surely in", "surely out", "of the top stay", "signs"], rows)


@dataclass(frozen=True)
class Asked:
    """What is asked beside members: signs, pairs of places in the flat map, regions of it."""

    signs: bool = True
    pairs: Sequence[Pair] = ()
    regions: Sequence[Tensor] = ()

    def check(self, scores: int) -> None:
        """Refuse places that there are not."""
        wrong = [each for each in self.pairs if not all(0 <= i < scores for i in each)]
        wrong += [each for each in self.pairs if each[0] == each[1]]
        if wrong or any(each.numel() != scores for each in self.regions):
            raise InputError(
                "pairs and regions",
                expected=f"two places from 0 to {scores - 1}, masks of {scores} scores",
                got=repr(wrong[0]) if wrong else "a mask of another size",
                remedy="count places in the flattened map of one example",
            )


@dataclass(frozen=True, eq=False)
class ExampleReasons:
    """The same of one example, flat."""

    inside: Tensor
    outside: Tensor
    overlap: int
    signs: Tensor
    pairs: list[bool]
    regions: list[bool]


def example_reasons(
    source: Source,
    example: ExampleAverage,
    to: Reach,
    asked: Asked,
    normaliser: tuple[Normaliser, int | None],
) -> ExampleReasons:
    """Half of alpha for the votes, half for all directions, which the first batch fixed."""
    scores = example.pilot.size
    asked.check(scores)
    counts = example.votes.share * example.draws
    votes = Votes.counted(counts, example.draws, example.votes.k, example.alpha / 2)
    inside, outside = votes.certain(to.shift)
    positive = example.pilot >= 0
    chosen = [sign(scores, i, bool(positive[i])) for i in range(scores)] if asked.signs else []
    first = len(chosen)
    for i, j in asked.pairs:
        chosen += pair(scores, i, bool(positive[i]), j)
    for mask in asked.regions:
        members = mask.detach().cpu().double().flatten().numpy()
        chosen.append(region(members, np.where(positive, 1.0, -1.0)))
    stays: list[bool] = []
    if chosen:
        second = example.draws - example.draws // 5
        values = lower_values(source, chosen, second, example.alpha / 2, normaliser)
        stays = [stays_positive(each, to.shift) for each in values]
    last = first + 2 * len(asked.pairs)
    kept = torch.zeros(scores)
    if asked.signs:
        own = torch.from_numpy(np.where(positive, 1.0, -1.0)).float()
        kept = torch.where(torch.tensor(stays[:first]), own, 0.0)
    return ExampleReasons(
        torch.from_numpy(inside),
        torch.from_numpy(outside),
        votes.overlap(to.shift),
        kept,
        [stays[at] and stays[at + 1] for at in range(first, last, 2)],
        stays[last:],
    )
