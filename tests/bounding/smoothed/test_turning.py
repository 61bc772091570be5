from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from attribound.bounding.smoothed.parts import KnownAverage
from attribound.bounding.smoothed.turning import (
    Turning,
    asin_degrees,
    growth,
    mean_only_degrees,
    variation,
)


def exact(length: float, deviation: float, **others: float) -> KnownAverage:
    """Everything known, as after infinitely many draws, unless told otherwise."""
    settings = {
        "side_deviation": deviation,
        "along_deviation": deviation,
        "side": 0.0,
        "distance": 0.0,
        "tilt": 0.0,
        **others,
    }
    shown = np.array([length, 0.0])
    return KnownAverage(length=length, deviation=deviation, shown=shown, **settings)


class TestGrowth:
    @pytest.mark.parametrize("t", [0.01, 0.3, 1.0, 2.0])
    def test_it_is_the_deviation_of_the_ratio_of_densities(self, t: float) -> None:
        z = np.linspace(-12, 12, 200_001)
        ratio = np.exp(t * z - t * t / 2)
        weight = norm.pdf(z) * (z[1] - z[0])
        assert growth(t) == pytest.approx(math.sqrt((weight * (ratio - 1) ** 2).sum()), rel=1e-6)

    def test_far_away_it_says_nothing(self) -> None:
        assert growth(50.0) == math.inf
        assert asin_degrees(growth(50.0), 1.0) == 180


class TestMeanOnly:
    @pytest.mark.parametrize(
        ("t", "length", "degrees"), [(0.2, 0.3, 32.0), (1.0, 0.99, 38.0), (2.0, 0.3, 180.0)]
    )
    def test_the_smaller_of_two(self, t: float, length: float, degrees: float) -> None:
        assert mean_only_degrees(length, t) == pytest.approx(degrees, abs=0.5)

    def test_nothing_is_known_of_a_direction_without_length(self) -> None:
        assert mean_only_degrees(0.0, 0.1) == 180
        assert mean_only_degrees(-0.1, 0.1) == 180

    @pytest.mark.parametrize("t", [0.05, 0.2, 0.5])
    def test_attained_by_maps_of_two_values(self, t: float) -> None:
        """The proof's own extremal case: u . map is 1 where the noise points away, else -1."""
        across = 2 * ndtr(t) - 1
        for length in (0.5, 0.8):
            phi = math.radians(asin_degrees(across, length))
            share = (1 + length * math.sin(phi)) / 2
            after = 2 * ndtr(norm.ppf(share) - t) - 1
            assert after == pytest.approx(0, abs=1e-9)


class TestUniform:
    @pytest.mark.parametrize("free", [1, 3])
    def test_variation_is_the_volume_outside_the_overlap(self, free: int) -> None:
        radius = math.sqrt(free + 2)
        shift = 0.7
        generator = np.random.default_rng(0)
        points = generator.standard_normal((400_000, free))
        length = np.linalg.norm(points, axis=1, keepdims=True)
        points *= radius * generator.random((400_000, 1)) ** (1 / free) / length
        points[:, 0] -= shift
        outside = (np.linalg.norm(points, axis=1) > radius).mean()
        assert variation(shift, "uniform", free) == pytest.approx(outside, abs=0.003)
        assert variation(2 * radius, "uniform", free) == 1

    def test_the_published_cosine_claims_too_much(self) -> None:
        """Maps that are zero in the overlap and opposite outside turn round: cosine -1.

        Wang and Kong (2024, arXiv 2405.06361) conclude cos >= cos(arctan(2 V)) from the volume V
        outside. Before the shift the average is V u, after it -V u.
        """
        outside = variation(0.5, "uniform", 3)
        published = math.cos(math.atan(2 * outside))
        before, after = outside * np.array([1.0]), -outside * np.array([1.0])
        cosine = float(before @ after) / (np.linalg.norm(before) * np.linalg.norm(after))
        assert cosine == -1 < published
        assert np.linalg.norm(after - before) == pytest.approx(2 * outside)  # attained
        honest = Turning(exact(outside, 1.0), noise="uniform", free=3).moves(0.5)[0]
        assert honest == 180

    def test_it_has_the_mean_only_form_alone(self) -> None:
        every = {
            form: Turning(exact(0.9, 0.1), form, "uniform", 3).moves(0.1)
            for form in ("smaller", "variance", "mean_only")
        }
        assert len(set(every.values())) == 1
        assert every["smaller"][1] == "mean-only form"
        gaussian = Turning(exact(0.9, 0.1)).moves(0.1)
        assert gaussian[0] < every["smaller"][0]


class TestTurning:
    def test_the_variance_form_is_attained_in_the_limit_of_small_shifts(self) -> None:
        """Two vectors by a half-space through x: known everywhere, of rank one."""
        one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        t = 1e-4
        after = ndtr(t) * one + ndtr(-t) * other
        middle = (one + other) / 2
        angle = math.degrees(
            math.acos(after @ middle / np.linalg.norm(after) / np.linalg.norm(middle))
        )
        known = exact(float(np.linalg.norm(middle)), float(np.linalg.norm(one - other) / 2))
        bound = Turning(known).moves(t)[0]
        # The maps are not linear in the noise: the first-order share of the variance is 2 / pi.
        assert angle == pytest.approx(bound * math.sqrt(2 / math.pi), rel=1e-3)

    def test_the_smaller_form(self) -> None:
        rough, calm = exact(0.9, 0.9), exact(0.9, 0.05)
        assert Turning(rough).moves(0.3)[1] == "mean-only form"
        assert Turning(calm).moves(0.3)[1] == "variance form"
        for known in (rough, calm):
            smaller = Turning(known).moves(0.3)[0]
            both = [Turning(known, form).moves(0.3)[0] for form in ("variance", "mean_only")]
            assert smaller == min(both)

    def test_shown_is_never_less_than_moves_and_grows_with_what_is_not_known(self) -> None:
        sure = Turning(exact(0.8, 0.2))
        unsure = Turning(exact(0.8, 0.2, distance=0.1, side=0.1, tilt=0.05))
        for t in (0.01, 0.2, 0.8):
            assert sure.shown(t) == pytest.approx(sure.moves(t)[0], rel=0.3)
            assert unsure.shown(t) > sure.shown(t)
        nothing = Turning(exact(-0.1, 0.2, distance=0.9, side=1.0, tilt=math.pi))
        assert nothing.shown(0.1) == nothing.moves(0.1)[0] == 180

    def test_a_side_that_is_long_does_not_help(self) -> None:
        """Where across >= length, a larger side must not make the bound smaller."""
        long = Turning(exact(0.1, 1.0, side=0.9, distance=1.0), "mean_only")
        assert long.shown(0.3) == 180

    def test_everything_grows_with_the_shift(self) -> None:
        one = Turning(exact(0.7, 0.3, distance=0.01, side=0.02))
        shifts = np.linspace(0, 2, 50)
        for values in (
            [one.moves(t)[0] for t in shifts],
            [one.shown(t) for t in shifts],
            [one.distance(t) for t in shifts],
        ):
            assert np.all(np.diff(values) >= 0)
        assert one.distance(30.0) <= 2.001

    def test_the_largest_shift_gives_the_limit_back(self) -> None:
        one = Turning(exact(0.7, 0.3))
        t = one.largest_shift(degrees=15.0)
        assert one.moves(t)[0] <= 15 < one.moves(t * (1 + 1e-9))[0]
        t = one.largest_shift(distance=0.2)
        assert one.distance(t) <= 0.2 < one.distance(t * (1 + 1e-9))
        assert Turning(exact(-0.1, 0.3)).largest_shift(degrees=15.0) == 0
        assert one.largest_shift(distance=2.5) == math.inf
