"""What is known of the true average from its draws: six numbers, all right with 1 - alpha.

h is the average of maps of norm at most 1 over all noise, c the mean of a first batch of draws,
v = c / |c|; all numbers are from a second, independent batch of N draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attribound.attributions.noise import Array
from attribound.bounding.smoothed.batches import Moments, Pilot
from attribound.bounding.smoothed.confidence import (
    distance_above,
    length_above,
    lower_mean,
    upper_mean,
)

#: Statements that each fail with a share of alpha.
STATEMENTS = 6


@dataclass(frozen=True, eq=False)
class KnownAverage:
    """Six statements about the average h; all are true together with probability 1 - alpha.

    Attributes:
        length: at most ``v . h``, and so at most ``|h|``.
        deviation: at least the standard deviation of the maps in their worst direction.
        side_deviation: the same orthogonally to v.
        along_deviation: at least the standard deviation along v.
        side: at least the norm of what is orthogonal to v in h.
        distance: at least the distance of ``shown`` from h.
        shown: the mean of all draws, which is the map to look at.
        tilt: the angle between ``shown`` and v, in radians.
    """

    length: float
    deviation: float
    side_deviation: float
    along_deviation: float
    side: float
    distance: float
    shown: Array
    tilt: float

    @property
    def shown_length(self) -> float:
        """The norm of the map to look at."""
        return float(np.linalg.norm(self.shown))


def known(pilot: Pilot, found: Moments, alpha: float) -> KnownAverage:
    """The six statements, each failing with probability at most ``alpha / 6``.

    1. ``length`` by Maurer and Pontil. 2. ``deviation``: at the top eigenvector a of the
    covariance, (a . (map - c))^2 is a scalar in [0, (1 + |c|)^2] with a mean of at least the
    eigenvalue; its sample mean is at most ``square``; Chernoff and Hoeffding, lower tail.
    3., 4. The same orthogonally to v (where c is 0: range 1), and along v. 5. ``side`` by
    Bernstein in the direction of the true one. 6. ``distance`` by Bousquet, for all draws.
    """
    share = alpha / STATEMENTS
    n = found.n
    reach = (1 + found.pilot_length) ** 2
    length = lower_mean(found.along, found.along_variance, n, share)
    deviation = math.sqrt(reach * upper_mean(found.square / reach, n, share))
    side_deviation = math.sqrt(upper_mean(found.side_square, n, share))
    along = math.sqrt(reach * upper_mean(found.along_square / reach, n, share))
    draws = pilot.count + n
    shown = (pilot.total + n * found.mean) / draws
    spread = 1 - max(length, 0.0) ** 2
    return KnownAverage(
        length=length,
        deviation=min(deviation, 1.0),
        side_deviation=side_deviation,
        along_deviation=min(along, 1.0),
        side=length_above(found.side, side_deviation**2, n, share),
        distance=distance_above(spread, min(deviation, 1.0) ** 2, draws, share),
        shown=shown,
        tilt=_angle(shown, pilot.centre),
    )


def _angle(a: Array, b: Array) -> float:
    """Between two vectors, in radians; pi where one is zero."""
    lengths = np.linalg.norm(a), np.linalg.norm(b)
    if min(lengths) == 0:
        return math.pi
    u, v = a / lengths[0], b / lengths[1]
    return 2 * math.atan2(float(np.linalg.norm(u - v)), float(np.linalg.norm(u + v)))
