"""What attacks leave of a list of reasons."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attribound.attacks import (
    Attack,
    BestOf,
    Displace,
    Displaced,
    KinkSteps,
    RandomPerturbation,
)
from attribound.attacks.displace import By, first_of, staying
from attribound.attributions import Attribution
from attribound.basics.errors import KinkError
from attribound.basics.tensors import per_example
from attribound.bounding.method import Question
from attribound.bounding.reasons.record import Displacement
from attribound.results import Attacked

_BETAS = (10.0, 50.0)  # of smooth copies of a network that has no slopes of its own
_DRAWS = 8


def attack(question: Question, k: int, by: By, given: Attack | None = None) -> list[Attacked]:
    """Attacks on the list: given ones, or pushing one member, half of them, and all."""
    asked = question.attribution, question.x, question.ball, question.target
    if given is not None:
        return [given(*asked)]
    aimed = [Displace(k, by, leaving) for leaving in sorted({1, -(-k // 2), k})]
    try:
        return [each(*asked) for each in aimed]
    except KinkError:
        climbs = [each.through(*_BETAS) for each in aimed]
        return [BestOf(*climbs, KinkSteps(), RandomPerturbation().repeat(_DRAWS))(*asked)]


def displacement(
    question: Question, clean: Tensor, found: Sequence[Attacked], k: int, by: By
) -> Displacement:
    """Of all perturbations that were tried the one that leaves fewest members, judged anew."""
    x, attribution = question.x, question.attribution
    objective = Displaced(k, by)
    best = torch.zeros_like(x)
    kept = torch.full((len(x),), k, device=x.device)
    margin = torch.full((len(x),), -torch.inf, dtype=clean.dtype, device=x.device)
    features = first_of(clean, k, by)
    for trial in (one for each in found for one in each.trials or (each,)):
        after = _maps(attribution, x + trial.delta, question.target)
        now, lead = staying(after, clean, k, by), objective.score(after, clean)
        wins = (now < kept) | ((now == kept) & (lead > margin))
        best = torch.where(per_example(wins, best), trial.delta, best)
        features = torch.where(wins.unsqueeze(1), first_of(after, k, by), features)
        kept, margin = torch.where(wins, now, kept), torch.where(wins, lead, margin)
    return Displacement(kept, best, features)


def _maps(attribution: Attribution, points: Tensor, target: Tensor) -> Tensor:
    parts = attribution.groups(points)
    return torch.cat([part.revalue(points[rows], target[rows]) for part, rows in parts])
