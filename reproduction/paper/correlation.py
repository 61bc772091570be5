"""Spearman's rank correlation of a few pairs, with the exact p-value of all permutations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
from scipy import stats

_LEAST = 4  # of three pairs no order is significant
_EXACT = 8  # pairs whose permutations are all tried
_Z = 1.959963984540054  # 97.5 % of a standard normal variable are below
_ROUNDING = 1e-9  # of sums of ranks, which are halves of integers


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, int] | None:
    """rho, its two-sided p-value and the number of pairs; None for too few or constant ones.

    >>> rank_correlation([(1, 4), (2, 3), (3, 2), (4, 1)])
    (-1.0, 0.08333333333333333, 4)
    """
    known = [pair for pair in pairs if all(math.isfinite(value) for value in pair)]
    if len(known) < _LEAST:
        return None
    x, y = (stats.rankdata(values) for values in zip(*known, strict=True))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    rho = float(np.corrcoef(x, y)[0, 1])
    if len(known) > _EXACT:
        return rho, float(stats.spearmanr(x, y).pvalue), len(known)
    centred = y - y.mean()
    orders = np.array(list(permutations(x - x.mean())))
    reached = np.abs(orders @ centred) >= abs((x - x.mean()) @ centred) - _ROUNDING
    return rho, float(reached.mean()), len(known)


def rank_interval(rho: float, n: int) -> tuple[float, float] | None:
    """The 95 % interval of a rank correlation by Bonett and Wright (2000); None for too few.

    >>> [round(end, 2) for end in rank_interval(-0.8, 7)]
    [-0.98, 0.03]
    """
    if n < _LEAST or abs(rho) >= 1:
        return None
    half = _Z * math.sqrt((1 + rho**2 / 2) / (n - 3))
    low, high = (math.tanh(math.atanh(rho) + sign * half) for sign in (-1, 1))
    return low, high
