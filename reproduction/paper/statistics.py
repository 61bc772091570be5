"""Means with standard errors, shares and rank correlations with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt
from scipy import stats

from attribound.auditing import wilson

Values = npt.NDArray[np.float64]
#: What a cell can say; None where there is nothing to say it from.
Numbers = dict[str, float | None]
#: What follows the name of a number: its standard error, and the ends of its 95 % interval.
ERROR, LOW, HIGH = "_se", "_low", "_high"
_ROUNDING = 1e-9  # also of sums of ranks, which are halves of integers
_CHANCE = 0.025  # above, of a 95 % interval
_LEAST = 4  # of three pairs no order is significant
_EXACT = 8  # pairs whose permutations are all tried
_Z = 1.959963984540054  # 97.5 % of a standard normal variable are below


def known(values: Values) -> Values:
    """Those that are numbers."""
    return values[~np.isnan(values)]


def mean(values: Values) -> float | None:
    """Of what is known."""
    there = known(values)
    return float(there.mean()) if len(there) else None


def with_error(name: str, values: Values) -> Numbers:
    """The mean of what is known and its standard error, which a single number has not.

    >>> with_error("x", np.array([1.0, 3.0, np.nan]))
    {'x': 2.0, 'x_se': 1.0}
    """
    there = known(values)
    found: Numbers = {name: mean(values)}
    if len(there) > 1:
        found[name + ERROR] = float(there.std(ddof=1) / math.sqrt(len(there)))
    return found


def share(name: str, part: float, whole: float, samples: float | None = None) -> Numbers:
    """Per cent, and the ends of Wilson's interval for the share of all samples there could be.

    Args:
        name: of the number.
        part: what was counted.
        whole: out of how many.
        samples: behind them, if several counted of each: these are not independent, and the
            interval is that of the same share of the samples alone.

    >>> share("beyond", 5, 10)["beyond"]
    50.0
    """
    if not whole:
        return {name: None}
    value = float(part) / float(whole)
    n = round(whole if samples is None else samples)
    # Outwards, where the share is no whole number of samples.
    low, _ = wilson(math.floor(value * n + _ROUNDING), n)
    _, high = wilson(math.ceil(value * n - _ROUNDING), n)
    return {name: 100 * value, name + LOW: 100 * low, name + HIGH: 100 * high}


def is_larger(found: float, n: float, claimed: float) -> bool:
    """Whether a share of n samples is too large for a true share of ``claimed``, exactly.

    Wilson's interval, which tables show, promises too much of one or two samples.

    >>> is_larger(1.0, 1, 0.062), is_larger(1.0, 2, 0.062)
    (False, True)
    """
    beyond = math.floor(found * n + _ROUNDING)
    return bool(stats.binom.sf(beyond - 1, round(n), claimed) <= _CHANCE)


def least(values: Values) -> float | None:
    """Of what is known."""
    there = known(values)
    return float(there.min()) if len(there) else None


def largest(values: Values) -> float | None:
    """Of what is known."""
    there = known(values)
    return float(there.max()) if len(there) else None


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
