"""What is kept of the draws of one example: a few sums, however many draws there are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attribound.attributions.noise import Array
from attribound.bounding.smoothed.spread import Spread, spread_of


class Pilot:
    """The mean of the first batch of maps: a centre and a direction, fixed before the second."""

    def __init__(self, scores: int) -> None:
        self.count = 0
        self.total = np.zeros(scores)

    def add(self, maps: Array) -> None:
        """Take more of them."""
        self.count += len(maps)
        self.total += maps.sum(0)

    @property
    def centre(self) -> Array:
        """Their mean."""
        mean: Array = self.total / self.count
        return mean


class SecondBatch:
    """Sums over the second batch, about the centre of the first."""

    def __init__(self, centre: Array, spread: Spread | None = None) -> None:
        self.centre = centre
        length = float(np.linalg.norm(centre))
        self.direction: Array = centre / length if length > 0 else np.zeros_like(centre)
        self.count = 0
        self.total = np.zeros_like(centre)
        self._along, self._about = 0.0, 0.0
        self._length = length
        self._spread = spread_of(len(centre)) if spread is None else spread

    def add(self, maps: Array) -> None:
        """Take more maps, of norm at most 1."""
        self.count += len(maps)
        self.total += maps.sum(0)
        along = maps @ self.direction
        # About the centre's length, where the sums lose no digits.
        about = along - self._length
        self._along += float(about.sum())
        self._about += float((about**2).sum())
        self._spread.add(maps - self.centre)

    def summary(self) -> Moments:
        """The numbers that all bounds are made of."""
        n = self.count
        mean = self.total / n
        shift = self._along / n
        side = mean - (mean @ self.direction) * self.direction
        return Moments(
            n=n,
            mean=mean,
            pilot_length=self._length,
            along=self._length + shift,
            along_variance=max(self._about / n - shift**2, 0.0) * n / (n - 1),
            along_square=self._about / n,
            square=self._spread.largest() / n,
            side_square=self._spread.largest(self.direction) / n,
            side=float(np.linalg.norm(side)),
        )


@dataclass(frozen=True, eq=False)
class Moments:
    """The second batch in numbers; v is the direction of the first batch's mean c.

    Attributes:
        n: its draws.
        mean: of its maps.
        pilot_length: the norm of c.
        along: the mean of v . map.
        along_variance: the variance of v . map in the sample.
        along_square: the mean of (v . (map - c))^2.
        square: the largest eigenvalue of the mean of (map - c)(map - c)^T, from above.
        side_square: the same orthogonally to v.
        side: the norm of what is orthogonal to v in ``mean``.
    """

    n: int
    mean: Array
    pilot_length: float
    along: float
    along_variance: float
    along_square: float
    square: float
    side_square: float
    side: float

    def __post_init__(self) -> None:
        """A sum of squares that is no number must not become a bound."""
        assert all(math.isfinite(value) for value in (self.along, self.square, self.side_square))
