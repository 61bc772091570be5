"""What a sample says of a mean: one-sided, finite-sample inequalities for one bounded scalar.

Every one of them is about one fixed direction. An upper bound on ``sup_a E phi_a`` needs only the
lower tail at the unknown maximiser, which is one scalar: no union over directions is paid for.
"""

from __future__ import annotations

import math

from scipy.stats import beta

_STEPS = 100  # of a bisection in float64


def lower_mean(mean: float, variance: float, n: int, failure: float) -> float:
    """A value that the mean of variables in [-1, 1] is below with probability at most ``failure``.

    Maurer and Pontil (2009), theorem 4, range 2; ``variance`` is that of the sample
    (divided by n - 1).
    """
    log = math.log(2 / failure)
    return mean - math.sqrt(2 * variance * log / n) - 14 * log / (3 * (n - 1))


def upper_mean(mean: float, n: int, failure: float) -> float:
    """A value that the mean of variables in [0, 1] is above with probability at most ``failure``.

    Chernoff and Hoeffding: the largest p with ``n kl(mean, p) <= ln(1 / failure)``.
    """
    limit = math.log(1 / failure) / n
    q = min(max(mean, 0.0), 1.0)
    low, high = q, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _kl(q, middle) <= limit:
            low = middle
        else:
            high = middle
    return high


def length_above(length: float, variance: float, n: int, failure: float) -> float:
    """A value that the norm of a mean of vectors of norm at most 1 is above with that probability.

    ``length`` is the norm of the sample's mean, ``variance`` at least the variance in the
    direction of the true mean: Bernstein, lower tail, in that direction.
    """
    log = math.log(1 / failure)
    return length + math.sqrt(2 * variance * log / n) + 2 * log / (3 * n)


def distance_above(spread: float, variance: float, n: int, failure: float) -> float:
    """A value that the distance of a sample's mean from the true one is above so rarely.

    Bousquet (2002) for vectors of norm at most 1: ``spread`` is at least the trace of their
    covariance, ``variance`` at least its largest eigenvalue.
    """
    log = math.log(1 / failure)
    expected = math.sqrt(max(spread, 0.0) / n)
    largest = 2.0  # of a centred vector
    wide = math.sqrt(2 * log * (variance + 2 * largest * expected) / n)
    return expected + wide + largest * log / (3 * n)


def share_between(count: int, n: int, failure: float) -> tuple[float, float]:
    """Clopper and Pearson: each end fails with probability at most ``failure``."""
    low = 0.0 if count == 0 else float(beta.ppf(failure, count, n - count + 1))
    high = 1.0 if count == n else float(beta.ppf(1 - failure, count + 1, n - count))
    return low, high


def _kl(q: float, p: float) -> float:
    """Divergence of a coin with q from one with p."""
    if p >= 1:
        return 0.0 if q >= 1 else math.inf
    inside = q * math.log(q / p) if q > 0 else 0.0
    return inside + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)
