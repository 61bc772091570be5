"""How far a smooth copy is from the network it was made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attribound.attributions.base import Attribution
from attribound.attributions.saliency import Saliency
from attribound.basics.errors import InputError
from attribound.basics.tensors import angle_degrees, norm, ratio
from attribound.networks.classifier import Classifier
from attribound.networks.inputs import check_inputs
from attribound.results import Fidelity

Model = Callable[[Tensor], Tensor]


def fidelity(
    original: Model,
    smoothed: Model,
    x: Tensor,
    attribution: Callable[[Model], Attribution] = Saliency,
) -> Fidelity:
    """Compare two models on ``x``: labels, logits, and attributions of the original's label.

    Bounds computed on a smooth copy speak of the copy; this says how much they can
    say of the original.

    Args:
        original: a classifier.
        smoothed: its smooth copy.
        x: inputs ``(batch, *features)``.
        attribution: makes the attribution of a model, e.g. ``ab.Saliency`` or
            ``lambda model: ab.IntegratedGradients(model, steps=10)``.
    """
    x = check_inputs(x)
    one, other = Classifier.of(original), Classifier.of(smoothed)
    labels = one.targets(x)
    with torch.no_grad():
        before, after = one.logits(x), other.logits(x)
    if before.shape != after.shape:
        raise InputError(
            "smoothed",
            expected=f"{before.shape[1]} classes, as the original",
            got=str(after.shape[1]),
            remedy="compare a network with its own copy",
        )
    a, b = attribution(original)(x, labels), attribution(smoothed)(x, labels)
    return Fidelity(
        labels_agree=after.argmax(1) == labels,
        logits=(before - after).abs().amax(1),
        attribution=ratio(norm(a - b), norm(a)),
        degrees=angle_degrees(a, b),
    )
