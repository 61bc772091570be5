"""What float64 can do to a bound, and the margins that cover it.

Two kinds of margin. A *defect* is the distance between a computed value and what it
stands for: :func:`gamma` times the same expression in absolute values. A *bound* is
made of numbers that are not negative by sums, products and roots, so that rounding
changes it by a relative amount only: :func:`up` covers it.
"""

from __future__ import annotations

from torch import Tensor

UNIT = 2.0**-53
#: Relative margin of :func:`up`: four million roundings on one path, and as much again.
SLACK = 2.0**-30
#: Absolute margin of :func:`up`: underflow, also under a square root.
TINY = 2.0**-400
#: Longest sum that :data:`SLACK` covers, several of them on one path.
LONGEST = 2**20


def gamma(terms: int) -> float:
    """Relative error of ``terms`` roundings on one path, in any order; at most 2**40 of them."""
    return 1.001 * terms * UNIT


def up(bound: Tensor) -> Tensor:
    """A computed bound, raised above everything that rounding took from it."""
    return bound * (1 + SLACK) + TINY
