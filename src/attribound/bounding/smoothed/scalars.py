"""Signs, orders and regions of the averaged map: one number in a direction fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attribound.attributions.noise import Array, Normaliser
from attribound.bounding.smoothed.confidence import lower_mean, upper_mean
from attribound.bounding.smoothed.drawing import SECOND, Source
from attribound.bounding.smoothed.turning import growth


def sign(scores: int, i: int, positive: bool) -> Array:
    """The direction in which score ``i`` has that sign."""
    a = np.zeros(scores)
    a[i] = 1.0 if positive else -1.0
    return a


def pair(scores: int, i: int, positive: bool, j: int) -> tuple[Array, Array]:
    """Two directions; |h_i| > |h_j| if the average is positive in both.

    ``positive`` is the sign of h_i; |h_j| is one of h_j and -h_j, so that both are asked.
    """
    first, second = (
        (sign(scores, i, positive) - sign(scores, j, own)) / math.sqrt(2) for own in (True, False)
    )
    return first, second


def region(inside: Array, signs: Array) -> Array:
    """The direction in which the scores of a region, with these signs, add up."""
    a = np.where(inside > 0, signs, 0.0)
    length = float(np.linalg.norm(a))
    return a / length if length > 0 else a


def lower_values(
    source: Source,
    directions: Sequence[Array],
    draws: int,
    alpha: float,
    normaliser: tuple[Normaliser, int | None] = ("unit", None),
) -> list[tuple[float, float]]:
    """Of each direction a lower value of ``a . h``, an upper one of the deviation of ``a . map``.

    Directions have norm at most 1 and must not depend on these draws. All statements hold
    together with probability 1 - alpha: each of the two parts of each direction has its share.
    ``a . h(x + delta)`` is then at least ``lower - deviation * growth(t)``.
    """
    matrix = np.stack([*directions])
    kind, k = normaliser
    count, total, squares = 0, np.zeros(len(matrix)), np.zeros(len(matrix))
    for vectors in source.vectors(draws, SECOND, kind, k):
        values = vectors @ matrix.T
        count += len(values)
        total += values.sum(0)
        squares += (values**2).sum(0)
    share = alpha / (2 * len(matrix))
    found = []
    for mean, square in zip(total / count, squares / count, strict=True):
        variance = max(square - mean**2, 0.0) * count / (count - 1)
        # About zero: a centre that was fixed beforehand.
        deviation = math.sqrt(upper_mean(square, count, share))
        lower = lower_mean(mean, variance, count, share)
        found.append((lower, _about_mean(deviation, lower)))
    return found


def _about_mean(second: float, lower: float) -> float:
    """The deviation from the mean, from the root of the mean square and a lower mean."""
    return math.sqrt(max(second**2 - max(lower, 0.0) ** 2, 0.0))


def stays_positive(value: tuple[float, float], t: float) -> bool:
    """Whether ``a . h`` is positive at every shift up to t."""
    lower, deviation = value
    return lower - deviation * growth(t) > 0
