"""How many crossings an exact integral may have before it has to be asked for by number."""

from __future__ import annotations

from attribound.attributions.exact.cells import StraightPaths, estimate
from attribound.attributions.exact.piecewise import PiecewiseLinear
from attribound.basics.errors import InputError, MemoryLimitError

#: Of ``quadrature="exact"``: up to about here it costs what some hundred nodes cost.
DEFAULT_LIMIT = 1000
EXACT = "exact"


def crossing_limit(quadrature: object) -> int | None:
    """The most crossings that ``exact`` or ``exact:5000`` allows; None for other quadratures.

    >>> crossing_limit("exact"), crossing_limit("exact:5000"), crossing_limit("midpoint")
    (1000, 5000, None)
    """
    name, _, number = str(quadrature).partition(":")
    if name != EXACT:
        return None
    if not number and quadrature == EXACT:
        return DEFAULT_LIMIT
    if not number.isdecimal() or int(number) < 1:
        raise InputError(
            "quadrature",
            expected="exact, or exact:N with the most crossings N that are allowed",
            got=repr(quadrature),
            remedy="use e.g. exact:5000",
        )
    return int(number)


def check_crossings(network: PiecewiseLinear, lines: StraightPaths, limit: int) -> int:
    """About how many crossings one path has at most; more than ``limit`` are refused.

    Where there are fewer neurons than that, nothing is counted.
    """
    if network.neurons <= limit:
        return network.neurons
    most = int(estimate(network, lines).max())
    if most > limit:
        raise InputError(
            "exact integrated gradients",
            expected=f"paths that cross at most {limit} kinks",
            got=f"one that crosses about {most}, counted between 129 of its points",
            remedy=f'allow as many, quadrature="exact:{_rounded(most)}", at the price of a '
            'gradient for each, or use "midpoint" with enough steps',
        )
    return most


def check_memory(crossings: int, features: int, limit: int) -> None:
    """Refuse the jumps of one path that would not fit: a number a feature each, in float64."""
    needed = 8 * crossings * features
    if needed > limit:
        raise MemoryLimitError(
            "Jacobian of exact integrated gradients",
            expected=f"at most {limit / 2**30:.3g} GiB for the jumps of one example",
            got=f"{needed / 2**30:.3g} GiB, {crossings} of {features} features",
            remedy="raise Classifier(model, memory_limit=...), of which two or three times that "
            "are used; values alone need none of it",
        )


def _rounded(count: int) -> int:
    """With a fifth to spare, in two digits."""
    digits = int(10 ** max(0, len(str(count)) - 2))
    return -(-(count * 6 // 5) // digits) * digits
