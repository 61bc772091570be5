"""Measure a model on test images: accuracy, under attack, and its attributions under attack."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from attribound import Classifier, data
from attribound.metrics import (
    attacked_accuracy,
    attribution_similarity,
    beginning_with,
    clean_accuracy,
)
from attribound.zoo import CardProtocol, Measurement

#: Images whose accuracy every card has, for a check that takes seconds.
FIRST = 1000


def images_of(name: str) -> tuple[Tensor, Tensor]:
    """The test images and labels of a data set, in the order of its files."""
    return data.arrays(data.load(name, "test"))


def measure(
    model: nn.Module, x: Tensor, y: Tensor, protocol: CardProtocol, *, progress: bool = False
) -> Measurement:
    """Everything a card says of a model, measured on ``x`` with labels ``y`` by ``protocol``.

    The same numbers every time, up to the rounding of the machine: images are taken
    in order, and random starts depend on the seed and the image alone.
    """
    predictions, attributions = protocol.predictions, protocol.attributions
    few = slice(predictions.images)
    attack = replace(predictions.attack, progress=progress)
    attacked = attacked_accuracy(model, x[few], y[few], predictions.ball, attack)
    count = len(x)
    if attributions.images is not None:
        count = beginning_with(attributions.images, model, x, y)
    # Kinks break bounds; an attack may still climb.
    attribution = attributions.attribution.of(Classifier(model, allow_kinks=True))
    similarity = attribution_similarity(
        attribution,
        x[:count],
        y[:count],
        attributions.ball,
        replace(attributions.attack, progress=progress),
        attributions.k,
    )
    own, labels = x[slice(protocol.images)], y[slice(protocol.images)]
    return Measurement(
        protocol=protocol,
        clean=clean_accuracy(model, own, labels),
        first=clean_accuracy(model, own[:FIRST], labels[:FIRST]),
        attacked=attacked,
        similarity=similarity,
    )
