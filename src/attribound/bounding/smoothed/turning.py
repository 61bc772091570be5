"""How far the average turns under a shift of the noise, from what is known of it.

t is the length of the shift in standard deviations of the noise. The averages before and after
are h and h'. Angles are in degrees; 180 where nothing follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scipy.special import betainc, ndtr, ndtri

from attribound.attributions.noise import NoiseKind
from attribound.bounding.smoothed.parts import KnownAverage

Form = Literal["smaller", "variance", "mean_only"]
VARIANCE, MEAN_ONLY = "variance form", "mean-only form"
_UNBOUNDED = 180.0
_ROUNDING = 1 + 1e-9
_LARGEST_SHIFT = 40.0


def growth(t: float) -> float:
    """``sqrt(exp(t^2) - 1)``: the standard deviation of the ratio of the shifted density.

    |a . (h' - h)| <= sd(a . map) growth(t) for every a, by Cauchy and Schwarz.
    """
    return math.sqrt(math.expm1(t * t)) if t < _LARGEST_SHIFT / 2 else math.inf


def variation(t: float, noise: NoiseKind = "gaussian", free: int = 1) -> float:
    """Total variation distance of the noise and its shift, at most 1.

    Uniform noise in a ball of radius r: 1 - I((d + 1) / 2, 1 / 2) at 1 - (shift / 2 r)^2.
    """
    if noise == "gaussian":
        return float(2 * ndtr(t / 2) - 1)
    half = t / (2 * math.sqrt(free + 2))
    return 1.0 if half >= 1 else float(1 - betainc((free + 1) / 2, 0.5, 1 - half**2))


def asin_degrees(opposite: float, length: float) -> float:
    """The angle by which a vector of at least ``length`` turns if its end moves so far."""
    if not opposite < length:
        return _UNBOUNDED
    return math.degrees(math.asin(opposite / length))


def mean_only_degrees(length: float, t: float) -> float:
    """What follows from ``|h| >= length`` and maps of norm at most 1 alone, Gaussian noise.

    The smaller of two: Neyman and Pearson in tilted directions, asin((2 Phi(t) - 1) / |h|), and
    along and across h (the way of Levine et al. 2019); neither is always smaller.
    """
    across = float(2 * ndtr(t) - 1)
    tilted = asin_degrees(across, length)
    if length <= 0:
        return tilted
    along = float(2 * ndtr(ndtri((1 + min(length, 1.0)) / 2) - t) - 1)
    two = math.degrees(math.atan2(across, along)) if along > 0 else _UNBOUNDED
    return min(tilted, two)


@dataclass(frozen=True, eq=False)
class Turning:
    """Bounds of one example at every shift, all from the same draws.

    Attributes:
        average: what is known.
        form: which proof; ``smaller`` takes the smaller of both.
        noise: of the draws; uniform noise has the mean-only form alone.
        free: features with noise.
    """

    average: KnownAverage
    form: Form = "smaller"
    noise: NoiseKind = "gaussian"
    free: int = 1

    @property
    def _by_variance(self) -> bool:
        return self.form != "mean_only" and self.noise == "gaussian"

    @property
    def _by_mean(self) -> bool:
        return self.form != "variance" or self.noise == "uniform"

    def moves(self, t: float) -> tuple[float, str]:
        """At least the angle of h and h', and the form that gave it."""
        every = []
        if self._by_variance:
            every.append((self._variance(t), VARIANCE))
        if self._by_mean:
            every.append((self._mean_only(t), MEAN_ONLY))
        value, form = min(every)
        return min(value * _ROUNDING, _UNBOUNDED), form

    def distance(self, t: float) -> float:
        """At least the Euclidean distance of h and h'."""
        every = []
        if self._by_variance:
            every.append(self.average.deviation * growth(t))
        if self._by_mean:
            every.append(2 * variation(t, self.noise, self.free))
        return min(every) * _ROUNDING

    def shown(self, t: float) -> float:
        """At least the angle between the map that is shown and h'.

        The smallest of three that hold together: the way over h by angles, the same by
        distances, and the way over v, the direction of the first batch.
        """
        known = self.average
        off = asin_degrees(known.distance, max(known.length, known.shown_length))
        moved = self.moves(t)[0]
        every = [off + moved if max(off, moved) < _UNBOUNDED else _UNBOUNDED]
        every.append(asin_degrees(known.distance + self.distance(t), known.shown_length))
        every.append(self._over_pilot(t))
        return min(min(every) * _ROUNDING, _UNBOUNDED)

    def _over_pilot(self, t: float) -> float:
        known = self.average
        found = _UNBOUNDED
        if self._by_variance:
            along = known.length - known.along_deviation * growth(t)
            across = known.side + known.side_deviation * growth(t)
            if along > 0:
                found = math.degrees(math.atan2(across, along))
        if self._by_mean and self.noise == "gaussian":
            across = float(2 * ndtr(t) - 1)
            # Only where across < length does a larger side make the sum larger.
            if across < known.length:
                tilted = asin_degrees(across, math.hypot(known.length, known.side))
                away = math.degrees(math.atan2(known.side, known.length))
                found = min(found, away + tilted)
        return found + math.degrees(known.tilt)

    def _variance(self, t: float) -> float:
        return asin_degrees(self.average.deviation * growth(t), self.average.length)

    def _mean_only(self, t: float) -> float:
        if self.noise == "gaussian":
            return mean_only_degrees(self.average.length, t)
        return asin_degrees(2 * variation(t, self.noise, self.free), self.average.length)

    def largest_shift(self, degrees: float | None = None, distance: float | None = None) -> float:
        """The largest t at which h moves by at most so many degrees, or so far; 0 if none."""
        if degrees is not None:
            return _largest(lambda t: self.moves(t)[0], degrees)
        assert distance is not None
        return _largest(self.distance, distance)


def _largest(bound: Callable[[float], float], limit: float) -> float:
    """The largest shift at which an increasing bound is within a limit, from below."""
    low, high = 0.0, _LARGEST_SHIFT
    if not bound(low) <= limit:
        return 0.0
    if bound(high) <= limit:
        return math.inf
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) <= limit else (low, middle)
    return low
