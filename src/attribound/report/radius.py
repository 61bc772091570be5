"""Bounds and attacks at a radius between those that were measured.

The page does the same in JavaScript (``assets/radius.js``); a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from attribound.bounding.cosine import cosine_and_degrees
from attribound.report.groups import Group, Numbers, records
from attribound.results import Moves


def bound_at(
    epsilon: float, measured: Mapping[float, Numbers], moves: Moves, linear: bool = True
) -> Numbers | None:
    """An upper value at ``epsilon`` under the same claim, per example; None if nothing is known.

    A measured radius gives what was measured. Otherwise a scaled bound is the smallest
    of T_k epsilon / epsilon_k. If a value range cuts the ball (``linear`` is false) the
    linearised optimum T is concave in the radius, not linear: T_k max(1, epsilon /
    epsilon_k) is above it on both sides. A nested bound is that of the next larger radius.

    >>> bound_at(0.2, {0.1: np.array([1.0])}, Moves.SCALED)
    array([2.])
    >>> bound_at(0.2, {0.1: np.array([1.0])}, Moves.NESTED) is None
    True
    """
    if epsilon in measured:
        return measured[epsilon]
    if moves is Moves.SCALED:
        least = 0.0 if linear else 1.0
        found = [values * max(least, epsilon / radius) for radius, values in measured.items()]
        result: Numbers = np.fmin.reduce(found)
        return result
    larger = [radius for radius in measured if radius > epsilon]
    return measured[min(larger)] if larger and moves is Moves.NESTED else None


def attack_at(epsilon: float, measured: Mapping[float, Numbers]) -> Numbers | None:
    """The largest deviation attained in the ball: a smaller ball's attacks are in it, too."""
    found = [values for radius, values in measured.items() if radius <= epsilon]
    return np.fmax.reduce(found) if found else None


def degrees(deviation: Numbers, attribution_norm: Numbers) -> Numbers:
    """The largest angle of a map moved by ``deviation``; 180 where nothing limits it."""
    with torch.no_grad():
        angle = cosine_and_degrees(torch.tensor(deviation), torch.tensor(attribution_norm))[1]
    found: Numbers = np.where(np.isnan(deviation), np.nan, angle.numpy())
    return found


def between(groups: Sequence[Group]) -> Iterator[str]:
    """What is known of the claims of a run between the measured radii, in sentences."""
    made = records(claim.name for group in groups for claim in group.claims)
    titles = {moves: [claim.title for claim in made if claim.moves is moves] for moves in Moves}
    if titles[Moves.SCALED]:
        cut = (
            ""
            if all(group.linear for group in groups)
            else ", except where the value range cuts the ball (there the page shows an upper "
            "value of the same claim)"
        )
        yield f"{_bounds(titles[Moves.SCALED])} linear in ε{cut}; angles follow in closed form."
    if titles[Moves.NESTED]:
        yield (
            f"{_bounds(titles[Moves.NESTED])} valid in every smaller ball: between the measured "
            "radii that of the next larger one is shown."
        )
    if titles[Moves.MEASURED]:
        yield f"{_bounds(titles[Moves.MEASURED])} shown at the measured radii alone."
    yield "Attacks of a ball are in every larger one."


def _bounds(titles: Sequence[str]) -> str:
    """The beginning of a sentence about the bounds of some claims.

    >>> _bounds(["first-order", "own"])
    'The first-order and own bounds are'
    """
    return f"The {' and '.join(titles)} bounds are"
