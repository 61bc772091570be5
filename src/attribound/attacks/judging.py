"""How far perturbations move a map, and which of several moves it furthest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.attributions.base import check_attribution
from attribound.basics.errors import InputError
from attribound.basics.tensors import angle_degrees, norm, per_example
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Attacked


def furthest(trials: list[Attacked]) -> Attacked:
    """Of each example the trial that moved it furthest; of equals the first."""
    best = trials[0]
    for trial in trials[1:]:
        wins = trial.deviation > best.deviation
        best = Attacked(
            delta=torch.where(per_example(wins, best.delta), trial.delta, best.delta),
            deviation=torch.where(wins, trial.deviation, best.deviation),
            cosine=torch.where(wins, trial.cosine, best.cosine),
            degrees=torch.where(wins, trial.degrees, best.degrees),
            label_kept=_where(wins, trial.label_kept, best.label_kept),
            attacked_map=_where(wins, trial.attacked_map, best.attacked_map),
            misclassified=best.misclassified,
            evaluations=best.evaluations + trial.evaluations,
            subject=best.subject,
            target=best.target,
        )
    return replace(best, trials=tuple(trials))


def _where(wins: Tensor, one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return None
    return torch.where(per_example(wins, one), one, other)


def judge(
    attribution: Attribution, x: Tensor, delta: Tensor, target: Target = None, evaluations: int = 0
) -> Attacked:
    """Score perturbations on any network: how far they move its attribution, and its label.

    For networks attacked through a smooth copy: ``judge(ab.Saliency(original), x, found.delta)``
    scores on the original what was found on the copy.
    """
    x = check_inputs(x)
    if not isinstance(delta, Tensor) or delta.shape != x.shape:
        raise InputError(
            "delta",
            expected=f"perturbations of shape {tuple(x.shape)}, as x",
            got=f"shape {tuple(delta.shape)}" if isinstance(delta, Tensor) else repr(delta),
            remedy="perturb every example of the batch: torch.zeros_like(x) for none",
        )
    check_attribution(attribution)
    return judge_all(attribution, x, [delta], attribution.targets(x, target), [evaluations])[0]


def judge_all(
    attribution: Attribution,
    x: Tensor,
    deltas: Sequence[Tensor],
    labels: Tensor,
    evaluations: Sequence[int],
    *,
    clean: Tensor | None = None,
) -> list[Attacked]:
    """:func:`judge` several perturbations of each example, whose maps are ``clean`` if known."""
    before = attribution(x, labels) if clean is None else clean
    classifier = attribution.classifier
    prediction = None if classifier is None else classifier.predict(x)
    judged = []
    for delta, spent in zip(deltas, evaluations, strict=True):
        after = attribution(x + delta, labels)
        degrees = angle_degrees(before, after)
        kept = wrong = None
        if classifier is not None and prediction is not None:
            kept = classifier.predict(x + delta) == prediction
            wrong = prediction != labels
        judged.append(
            Attacked(
                delta=delta,
                deviation=norm(after - before),
                cosine=2 * torch.sin(torch.deg2rad(degrees) / 2) ** 2,
                degrees=degrees,
                label_kept=kept,
                misclassified=wrong,
                evaluations=spent,
                subject=attribution.subject,
                attacked_map=after,
                target=labels,
            )
        )
    return judged
