"""Split conformal prediction: the order statistic that the next exchangeable score stays below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from attribound.basics.errors import InputError

Group = int | None
Scores = dict[Group, tuple[float, ...]]


def check_alpha(alpha: float) -> float:
    """``alpha`` as a float, refused unless it is a probability strictly between 0 and 1."""
    if not (isinstance(alpha, (int, float)) and 0 < alpha < 1):
        raise InputError(
            "alpha",
            expected="a probability of failure above 0 and below 1",
            got=repr(alpha),
            remedy="use e.g. alpha=0.05 for bounds that hold for 95% of the samples",
        )
    return float(alpha)


def rank(count: int, alpha: float) -> int:
    """The k = ceil((count + 1)(1 - alpha)) whose k-th smallest score is the factor.

    The next score is equally likely to fall into any of the ``count + 1`` gaps between
    them, hence the + 1: without it the coverage of few scores is too small.

    >>> rank(19, 0.05), rank(100, 0.05)
    (19, 96)
    """
    # The decimal that was written, not its binary neighbour, which may lie across a whole number.
    return math.ceil((count + 1) * (1 - Fraction(repr(alpha))))


def needed(alpha: float) -> int:
    """The fewest scores with a finite factor: 1 / alpha - 1, rounded up.

    >>> needed(0.05), needed(0.1)
    (19, 9)
    """
    return math.ceil(1 / Fraction(repr(alpha)) - 1)


def conformal_factor(scores: Sequence[float], alpha: float) -> float:
    """What the score of a new sample stays at or below with probability >= 1 - alpha.

    The ``rank``-th smallest of ``scores``, infinite if there are fewer. Holds if the new
    score is exchangeable with these, on average over their draw; with distinct scores
    the probability is exactly rank / (len(scores) + 1).

    >>> conformal_factor([0.3, 0.1, 0.2], alpha=0.5)
    0.2
    """
    k = rank(len(scores), alpha)
    return sorted(scores)[k - 1] if k <= len(scores) else math.inf
