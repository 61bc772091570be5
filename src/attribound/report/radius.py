"""Bounds and attacks at a radius between those that were measured.

The page does the same in JavaScript (``assets/page.js``); a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from attribound.bounding.cosine import cosine_and_degrees
from attribound.report.claims import Moves

Values = NDArray[np.float64]


def bound_at(
    epsilon: float, measured: Mapping[float, Values], moves: Moves, linear: bool = True
) -> Values | None:
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
        result: Values = np.fmin.reduce(found)
        return result
    larger = [radius for radius in measured if radius > epsilon]
    return measured[min(larger)] if larger and moves is Moves.NESTED else None


def attack_at(epsilon: float, measured: Mapping[float, Values]) -> Values | None:
    """The largest deviation attained in the ball: a smaller ball's attacks are in it, too."""
    found = [values for radius, values in measured.items() if radius <= epsilon]
    return np.fmax.reduce(found) if found else None


def degrees(deviation: Values, attribution_norm: Values) -> Values:
    """The largest angle of a map moved by ``deviation``; 180 where nothing limits it."""
    with torch.no_grad():
        angle = cosine_and_degrees(torch.tensor(deviation), torch.tensor(attribution_norm))[1]
    found: Values = np.where(np.isnan(deviation), np.nan, angle.numpy())
    return found
