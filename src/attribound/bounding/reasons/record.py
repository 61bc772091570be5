"""The reasons of a batch: what stays of a short list, and what an attack left of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attacks.displace import By
from attribound.balls import Ball
from attribound.basics.tables import cell, render
from attribound.results import Claim


@dataclass(frozen=True, eq=False)
class Displacement:
    """What an attack aimed at the list left of it.

    Attributes:
        kept: fewest of the k reasons that were among the k largest scores somewhere in the ball.
        at_most: no more than so many were, whatever the rounding of both maps did: of those that
            left, some may have done so by no more than the evaluation error.
        delta: where that was, ``(batch, *features)``.
        features: the k largest scores there, ``(batch, k)``.
        map: the attribution there, ``(batch, *scores)``.
    """

    kept: Tensor
    at_most: Tensor
    delta: Tensor
    features: Tensor
    map: Tensor


@dataclass(frozen=True, eq=False)
class Reasons:
    """What provably stays of the k largest scores of each example, under a claim.

    Attributes:
        ball: of the perturbations.
        k, by: how many scores; ranked by ``value`` or ``absolute`` value.
        claim: what all below promises, ``attained`` excepted.
        target: the labels explained.
        features: which scores, the largest first: places in the flattened map, ``(batch, k)``.
        values: these scores at x.
        low, high: between these each of them stays.
        sign_kept: its sign can't change.
        stays: it can't leave the k largest.
        kept: at least so many of the k stay, ``(batch,)``; often more than single ones are sure.
        order_kept: so many from the first on surely keep their places.
        attained: what an attack left; None if none was made.
        names: of all scores; None for their numbers.
        subject: of which network it speaks.
    """

    ball: Ball
    k: int
    by: By
    claim: Claim
    target: Tensor
    features: Tensor
    values: Tensor
    low: Tensor
    high: Tensor
    sign_kept: Tensor
    stays: Tensor
    kept: Tensor
    order_kept: Tensor
    attained: Displacement | None
    names: tuple[str, ...] | None
    subject: str

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def exceeded(self) -> Tensor:
        """Where the attack left fewer than was said, by more than the evaluation error."""
        if self.attained is None:
            return torch.zeros_like(self.kept, dtype=torch.bool)
        return self.attained.at_most < self.kept

    def name(self, feature: int) -> str:
        """What a score is called."""
        return str(feature) if self.names is None else self.names[feature]

    def sentence(self, row: int) -> str:
        """What is known of one example, in words."""
        kept = int(self.kept[row])
        said = f"all {self.k} stay" if kept == self.k else f"at least {kept} of {self.k} stay"
        if self.attained is None:
            return said
        left = int(self.attained.kept[row])
        unsure = ", within evaluation error" if left < kept and not self.exceeded[row] else ""
        return f"{said}; an attack left {'all' if left == self.k else left}{unsure}"

    def __repr__(self) -> str:
        rows: list[tuple[object, ...]] = []
        for row in range(len(self)):
            there = set() if self.attained is None else {*self.attained.features[row].tolist()}
            for rank in range(self.k):
                feature = int(self.features[row, rank])
                numbers = (each[row, rank].item() for each in (self.values, self.low, self.high))
                flags = (
                    "yes" if each[row, rank] else "no" for each in (self.sign_kept, self.stays)
                )
                gone = "" if self.attained is None or feature in there else "gone"
                said = self.sentence(row) if rank == 0 else ""
                shown = row if rank == 0 else ""
                rows.append((shown, self.name(feature), *numbers, *flags, gone, said))
        title = (
            f"The {self.k} largest scores by {self.by} of {self.subject}, {self.ball.name} ball of "
            f"radius {cell(self.ball.epsilon)}, claim: {self.claim}"
        )
        header = ["example", "reason", "score", "low", "high", "sign kept", "stays", "attacked", ""]
        return render(title, header, rows)
