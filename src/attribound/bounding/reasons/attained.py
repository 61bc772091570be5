"""What attacks leave of a list of reasons."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from attribound.attacks import (
    BestOf,
    Displace,
    Displaced,
    KinkSteps,
    RandomPerturbation,
)
from attribound.attacks.displace import By, first_of, sizes, staying
from attribound.attributions import Attribution
from attribound.attributions.averaged import Averaged
from attribound.basics.errors import AttriboundError, KinkError
from attribound.basics.tensors import norm, per_example
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.averaged import check_asked
from attribound.bounding.reasons.deciding import at_most
from attribound.bounding.reasons.record import Displacement
from attribound.bounding.smoothed import Smoothed
from attribound.bounding.validation import evaluation_errors
from attribound.results import Attacked

_BETAS = (10.0, 50.0)  # of smooth copies of a network that has no slopes of its own
_DRAWS = 8
_JUDGING = 104729  # far from the seeds of draws that are climbed with
_SHORT = Displace(steps=4, pairs=2, random_starts=0)  # every step takes all draws


def attained(
    method: Method, question: Question, clean: Tensor, deltas: Sequence[Tensor], k: int, by: By
) -> Displacement:
    """Of all perturbations that were tried what left fewest of the list that a method speaks of.

    They are judged anew, on the map itself; those of an averaged map are added to.
    """
    if isinstance(method, Smoothed):
        return _of_average(method, question, deltas, k, by)
    return _fewest(question.attribution, question, clean, deltas, Displaced(k, by))


def perturbations(found: Sequence[Attacked]) -> list[Tensor]:
    """Of all repeats of some attacks."""
    return [trial.delta for each in found for trial in each.trials or (each,)]


def attack(question: Question, k: int, by: By, seed: int = 0) -> list[Attacked]:
    """Attacks on the list: pushing one member, half of them, and all."""
    asked = question.attribution, question.x, question.ball, question.target
    aimed = [Displace(k, by, leaving, seed=seed) for leaving in sorted({1, -(-k // 2), k})]
    try:
        return [each(*asked) for each in aimed]
    except KinkError:
        climbs = [each.through(*_BETAS) for each in aimed]
        others = KinkSteps(), RandomPerturbation(seed=seed).repeat(_DRAWS)
        return [BestOf(*climbs, *others)(*asked)]
    except AttriboundError:  # no slopes at all
        return [RandomPerturbation(seed=seed).repeat(_DRAWS)(*asked)]


def _of_average(
    method: Smoothed, question: Question, deltas: Sequence[Tensor], k: int, by: By
) -> Displacement:
    """The same of an averaged map: climbed with few draws, judged with many others.

    The draws before and after a perturbation are the same, so that their noise hardly counts; a
    list whose order is a matter of that noise may still be said to have changed.
    """
    method = check_asked(method, k, by)
    about = method.speaks_of(question.attribution, question.x, question.ball)
    assert isinstance(about, Averaged)
    asked = about, question.x, question.ball, question.target
    more: list[Attacked] = []
    # Where there are no slopes, perturbations found on the plain map and by draws alone remain.
    with suppress(AttriboundError):
        more = [replace(_SHORT, k=k, by=by, leaving=leaving)(*asked) for leaving in {1, k}]
    opponent = method.opponent()
    more.append(opponent(*asked))
    many = replace(about, draws=opponent.judging, seed=about.seed + _JUDGING)
    trials = [*deltas, *perturbations(more)]
    chosen = _fewest(
        about, question, _maps(about, question.x, question.target), trials, Displaced(k, by)
    )
    clean = _maps(many, question.x, question.target)
    return _fewest(many, question, clean, [chosen.delta], Displaced(k, by))


def _fewest(
    attribution: Attribution,
    question: Question,
    clean: Tensor,
    deltas: Sequence[Tensor],
    objective: Displaced,
) -> Displacement:
    """What surely left most of the list, of equals what left most of it as it was evaluated."""
    x, k, by = question.x, objective.k, objective.by
    best = torch.zeros_like(x)
    kept = torch.full((len(x),), k, device=x.device)
    most = kept
    margin = torch.full((len(x),), -torch.inf, dtype=clean.dtype, device=x.device)
    features = first_of(clean, k, by)
    best_map = clean
    for delta in deltas:
        after = _maps(attribution, x + delta, question.target)
        now, lead = staying(after, clean, k, by), objective.score(after, clean)
        sure = _at_most(after, clean, k, by)
        further = (now < kept) | ((now == kept) & (lead > margin))
        wins = (sure < most) | ((sure == most) & further)
        best = torch.where(per_example(wins, best), delta, best)
        best_map = torch.where(per_example(wins, best_map), after, best_map)
        features = torch.where(wins.unsqueeze(1), first_of(after, k, by), features)
        kept, margin = torch.where(wins, now, kept), torch.where(wins, lead, margin)
        most = torch.where(wins, sure, most)
    return Displacement(kept, most, best, features, best_map.detach())


def _at_most(after: Tensor, clean: Tensor, k: int, by: By) -> Tensor:
    """How many of the clean list may have stayed, as far as rounding lets one know."""
    errors, _ = evaluation_errors(norm(clean), norm(after - clean))
    now, listed = sizes(after, by).detach().double().cpu(), first_of(clean, k, by).cpu()
    rows = zip(now, listed, errors.tolist(), strict=True)
    return torch.tensor([at_most(*row) for row in rows], device=clean.device)


def _maps(attribution: Attribution, points: Tensor, target: Tensor) -> Tensor:
    parts = attribution.groups(points)
    return torch.cat([part.revalue(points[rows], target[rows]) for part, rows in parts])
