"""Means with standard errors and shares with intervals, under the names of a table's numbers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attribound.auditing import wilson

Values = npt.NDArray[np.float64]
#: What a cell can say; None where there is nothing to say it from.
Numbers = dict[str, float | None]
#: What follows the name of a number: its standard error, and the ends of its 95 % interval.
ERROR, LOW, HIGH = "_se", "_low", "_high"
_ROUNDING = 1e-9


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


def least(values: Values) -> float | None:
    """Of what is known."""
    there = known(values)
    return float(there.min()) if len(there) else None


def largest(values: Values) -> float | None:
    """Of what is known."""
    there = known(values)
    return float(there.max()) if len(there) else None
