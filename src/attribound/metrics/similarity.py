"""How alike attributions stay under an attack on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attacks import Attack
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.metrics import comparing as metrics
from attribound.metrics.accuracy import slices
from attribound.metrics.statistics import Mean
from attribound.networks.inputs import check_inputs, check_targets
from attribound.networks.modes import eval_mode

_BATCH = 100


@dataclass(frozen=True)
class Similarity:
    """How alike attributions are before and after an attack; 1 is unchanged.

    Attributes:
        top_k: share of the ``k`` features of largest size that stay among these.
        kendall, pearson: correlations of the sizes of all features, by rank and linear.
        cosine: of the attributions with their signs, which is what cosine bounds speak of.
        k: of ``top_k``.
        misclassified: examples left out, because their label is not predicted.
    """

    top_k: Mean
    kendall: Mean
    pearson: Mean
    cosine: Mean
    k: int
    misclassified: int

    @property
    def n(self) -> int:
        """Examples that were attacked."""
        return self.kendall.n


def attribution_similarity(
    attribution: Attribution, x: Tensor, y: Tensor, ball: Ball, attack: Attack, k: int
) -> Similarity | None:
    """Attack the attributions of correctly classified examples, and compare before and after.

    In eval mode, batch by batch. An upper estimate of what the worst perturbation
    leaves, as with any attack; :class:`IFIA` keeps the prediction, and returns the clean
    input where it finds nothing.

    Args:
        attribution: of a model; explains the labels ``y``.
        x: examples ``(batch, *features)``.
        y: their labels ``(batch,)``.
        ball: what the attacker may do.
        attack: the attack; its own settings say how hard it tries.
        k: how many features of largest size to compare.

    Returns:
        None if no example is classified correctly: there is nothing to compare.
    """
    x, y = check_inputs(x), check_targets(y, x, None)
    classifier = attribution.classifier
    if classifier is None:
        raise InputError(
            "attribution",
            expected="one that knows its classifier, to leave out misclassified examples",
            got=attribution.name,
            remedy="pass FunctionAttribution(fn, model=...)",
        )
    found: dict[str, list[Tensor]] = {}
    with eval_mode(classifier.model):
        predicted = torch.cat([classifier.predict(x[rows]) for rows in slices(len(x))])
        right = (predicted == y).nonzero().flatten()
        for rows in slices(len(right), _BATCH):
            part, labels = x[right[rows]], y[right[rows]]
            for name, values in _compare(attribution, part, labels, (ball, attack), k).items():
                found.setdefault(name, []).append(values)
    if not found:
        return None
    means = {name: Mean.of(torch.cat(values)) for name, values in found.items()}
    return Similarity(**means, k=k, misclassified=len(x) - len(right))


def _compare(
    attribution: Attribution, x: Tensor, y: Tensor, threat: tuple[Ball, Attack], k: int
) -> dict[str, Tensor]:
    ball, attack = threat
    before = attribution(x, y)
    sizes = metrics.maps(before, absolute=True)
    # First, for a bad k to be refused before the attack has run.
    metrics.top_k_intersection(sizes, sizes, k)
    after = attribution(x + attack(attribution, x, ball, y).delta, y)
    moved = metrics.maps(after, absolute=True)
    return {
        "top_k": metrics.top_k_intersection(sizes, moved, k),
        "kendall": metrics.kendall(sizes, moved),
        "pearson": metrics.pearson(sizes, moved),
        "cosine": 1 - metrics.cosine(before, after),
    }
