"""The averaged map of one example, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from attribound.attributions.noise import Array, Normaliser, normalised, top_count, tops
from attribound.bounding.smoothed.batches import Pilot, SecondBatch
from attribound.bounding.smoothed.drawing import FIRST, SECOND, Source
from attribound.bounding.smoothed.parts import KnownAverage, known
from attribound.bounding.smoothed.votes import Votes


@dataclass(frozen=True, eq=False)
class ExampleAverage:
    """One example: what is known of its average, its map, and what stands beside it.

    Attributes:
        average: what is known.
        pilot: the mean of the first batch.
        shape: of the map.
        similarity: cosine of the averaged map and the map at x.
        label_share: share of the first batch with the prediction at x; None without a classifier.
        misclassified: the label explained is not that prediction.
        votes: of all draws for the largest scores; right with a probability 1 - alpha of their own.
        draws: how many there were.
        alpha: how improbable it is that a statement fails.
    """

    average: KnownAverage
    pilot: Array
    shape: torch.Size
    similarity: float
    label_share: float | None
    misclassified: bool
    votes: Votes
    draws: int
    alpha: float


def average(
    source: Source, draws: int, alpha: float, kind: Normaliser, k: int | None
) -> ExampleAverage:
    """Draw all of it: a fifth for centre and direction, the rest for the numbers.

    How many is fixed beforehand: a sample that is drawn until the number looks good has
    another distribution than the proofs assume.
    """
    here = source.attribution.revalue(source.x, source.target)
    at_x = normalised(here, kind, k)[0].cpu().numpy()
    pilot = Pilot(at_x.size)
    first = draws // 5
    classifier = source.attribution.classifier
    label = None if classifier is None else classifier.predict(source.x)
    same, votes = 0, np.zeros(at_x.size)
    for maps, predicted in source.maps(first, FIRST, predict=True):
        pilot.add(normalised(maps, kind, k).cpu().numpy())
        votes += _voted(maps, k)
        if predicted is not None and label is not None:
            same += int(torch.eq(predicted, label).sum())
    second = SecondBatch(pilot.centre)
    for maps, _ in source.maps(draws - first, SECOND):
        second.add(normalised(maps, kind, k).cpu().numpy())
        votes += _voted(maps, k)
    found = known(pilot, second.summary(), alpha)
    return ExampleAverage(
        average=found,
        pilot=pilot.centre,
        shape=here.shape[1:],
        similarity=_cosine(found.shown, at_x),
        label_share=None if label is None else same / first,
        misclassified=label is not None and bool((label != source.target).any()),
        votes=Votes.counted(votes, draws, top_count(k, at_x.size), alpha),
        draws=draws,
        alpha=alpha,
    )


def _voted(maps: torch.Tensor, k: int | None) -> Array:
    """How many of these maps have each score among their k largest."""
    counts: Array = tops(maps.detach().double().flatten(1), k).sum(0).cpu().numpy()
    return counts


def _cosine(a: Array, b: Array) -> float:
    """Of two vectors; 0 where one is zero."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0
