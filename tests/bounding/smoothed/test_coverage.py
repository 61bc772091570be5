"""Every statement about an average is wrong no more often than it says; wrong variants are."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import binom

import attribound as ab
from attribound.attributions.noise import generator_of, noisy
from attribound.bounding.smoothed.confidence import (
    distance_above,
    length_above,
    lower_mean,
    share_between,
    upper_mean,
)
from attribound.bounding.smoothed.parts import STATEMENTS
from bounding.smoothed.truths import TRUTHS, misses, rare, sampled, sphere, two

ALPHA = 0.05  # of each statement
REPEATS = 1000


def most(repeats: int = REPEATS) -> int:
    """Misses that a statement with probability ALPHA exceeds once in a thousand tests."""
    return int(binom.ppf(0.999, repeats, ALPHA))


@pytest.mark.parametrize("name", sorted(TRUTHS))
@pytest.mark.parametrize("draws", [250, 1000])
def test_no_statement_fails_more_often_than_alpha(name: str, draws: int) -> None:
    truth = TRUTHS[name]
    generator = np.random.default_rng(draws)
    failed: Counter[str] = Counter()
    for _ in range(REPEATS):
        pilot, _, said = sampled(truth, generator, draws, STATEMENTS * ALPHA)
        failed.update(part for part, wrong in misses(truth, pilot, said).items() if wrong)
    # Not only within chance of alpha, as ``most`` allows: none missed more often than that.
    assert all(count <= ALPHA * REPEATS for count in failed.values()), failed


class TestWrongVariants:
    """What looks like the same and is no certificate."""

    @pytest.mark.parametrize("name", ["rare .002", "rare .01", "two vectors"])
    def test_the_variance_of_the_sample_is_too_small(self, name: str) -> None:
        truth = TRUTHS[name]
        generator = np.random.default_rng(0)
        true = np.linalg.eigvalsh(truth.covariance)[-1]
        below = sum(sampled(truth, generator, 500, ALPHA)[1].square < true for _ in range(REPEATS))
        assert below > most()

    @pytest.mark.parametrize("name", ["two vectors", "rare .01"])
    def test_the_norm_of_the_sample_is_too_large(self, name: str) -> None:
        """The mean's own norm, or its part along the pilot, in place of a lower value."""
        truth = TRUTHS[name]
        generator = np.random.default_rng(0)
        true = np.linalg.norm(truth.mean)
        over = sum(
            np.linalg.norm(sampled(truth, generator, 500, ALPHA)[1].mean) > true
            for _ in range(REPEATS)
        )
        assert over > most()

    def test_stopping_when_the_number_looks_good(self) -> None:
        """The best of many looks at a growing sample is wrong far more often than one look.

        Maps e1, or -e1 with probability p, and a pilot of e1: the square of a deviation is 4 for
        a jump, else 0, and its mean 4 p.
        """
        p, looks = 0.2, [20 * 2**k for k in range(14)]
        generator = np.random.default_rng(0)
        once = stopped = 0
        for _ in range(REPEATS):
            jumps = generator.binomial(np.diff([0, *looks]), p).cumsum()
            seen = [4 * upper_mean(k / n, n, ALPHA) for k, n in zip(jumps, looks, strict=True)]
            once += seen[-1] < 4 * p
            stopped += any(each < 4 * p for each in seen)
        assert once <= most()
        assert stopped > most()

    def test_noise_that_is_added_in_float32(self) -> None:
        """Parity of the last bit tells 0 from 2^-24: its average jumps, whatever was proved."""
        near, far = torch.zeros(1), torch.full((1,), 2.0**-24)
        turned = {}
        for name, add in {
            "float64": noisy,
            "float32": lambda x, noise: x + torch.from_numpy(noise).float(),
        }.items():
            means = []
            for x in (near, far):
                noise = generator_of(near, 0, 0).standard_normal((40_000, 1))
                means.append(_parity(add(x, noise)).double().mean(0))
            turned[name] = _angle(*(mean.numpy() for mean in means))
        # At t = 6e-8 nothing turns by a degree, sampling error included.
        assert turned["float64"] < 1
        assert turned["float32"] > 5


def _parity(points: torch.Tensor) -> torch.Tensor:
    """(1, 0) for numbers from 1 to 2 with an even last bit, else (0, 1)."""
    bits = points.flatten().view(torch.int32)
    even = (bits % 2 == 0) & (points.flatten().abs() >= 1) & (points.flatten().abs() < 2)
    return torch.stack([even, ~even], 1)


class TestEndToEnd:
    """Two vectors, told apart by a half-space: the average is known at every point."""

    ONE, OTHER = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8])

    def attribution(self) -> ab.FunctionAttribution:
        def halves(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return torch.where(x[:, :1] > 0, self.ONE.to(x), self.OTHER.to(x))

        return ab.FunctionAttribution(halves)

    def average(self, first: float, sigma: float) -> np.ndarray:
        share = ndtr(first / sigma)
        return share * self.ONE.double().numpy() + (1 - share) * self.OTHER.double().numpy()

    def test_the_certificate_holds(self) -> None:
        alpha, sigma, repeats = 0.05, 0.25, 1000
        x = torch.tensor([[0.05, 0.0]])
        truth = self.average(0.05, sigma)
        radii = (0.02, 0.1, 0.2)
        asked = [ab.L2Ball(radius) for radius in radii]
        wrong = Counter()
        for seed in range(repeats):
            method = ab.Smoothed(sigma, draws=100, alpha=alpha, seed=seed, chunk=100)
            questions = [
                ab.Question(self.attribution(), x, ball, torch.tensor([0])) for ball in asked
            ]
            method.prepare(questions)
            missed, missed_shown = False, False
            for radius, question in zip(radii, questions, strict=True):
                bound = question.bound(method)
                moved = [self.average(0.05 + sign * radius, sigma) for sign in (-1, 1)]
                missed |= max(_angle(truth, each) for each in moved) > bound.degrees.item()
                picture = bound.map[0].double().numpy()
                worst = max(_angle(picture, each) for each in moved)
                missed_shown |= worst > bound.shown_degrees.item()
            wrong["moves"] += missed
            wrong["shown"] += missed_shown
        assert wrong["moves"] <= most()
        assert wrong["shown"] <= most()


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    return math.degrees(math.acos(min(1.0, a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))))


class TestInequalities:
    def test_the_largest_share_is_where_the_divergence_says(self) -> None:
        n, mean, failure = 200, 0.1, 0.01
        p = upper_mean(mean, n, failure)
        divergence = mean * math.log(mean / p) + (1 - mean) * math.log((1 - mean) / (1 - p))
        assert n * divergence == pytest.approx(math.log(1 / failure), rel=1e-6)
        assert upper_mean(0.0, n, failure) == pytest.approx(1 - failure ** (1 / n), rel=1e-6)
        assert upper_mean(1.0, n, failure) == 1

    def test_one_scalar_from_below(self) -> None:
        """Maurer and Pontil's own form, for variables in [0, 1]."""
        n, delta = 100, 0.05
        mean, variance = 0.6, 0.04
        log = math.log(2 / delta)
        theirs = mean - math.sqrt(2 * variance * log / n) - 7 * log / (3 * (n - 1))
        ours = lower_mean(2 * mean - 1, 4 * variance, n, delta)
        assert (ours + 1) / 2 == pytest.approx(theirs)

    def test_more_draws_say_more(self) -> None:
        few, many = 100, 10_000
        assert lower_mean(0.5, 0.1, few, 0.01) < lower_mean(0.5, 0.1, many, 0.01) < 0.5
        assert length_above(0.5, 0.1, few, 0.01) > length_above(0.5, 0.1, many, 0.01) > 0.5
        assert distance_above(0.5, 0.1, few, 0.01) > distance_above(0.5, 0.1, many, 0.01) > 0

    def test_shares_of_votes(self) -> None:
        assert share_between(0, 100, 0.025) == (0.0, pytest.approx(1 - 0.025 ** (1 / 100)))
        assert share_between(100, 100, 0.025) == (pytest.approx(0.025 ** (1 / 100)), 1.0)
        low, high = share_between(30, 100, 0.025)
        assert low == pytest.approx(0.2124, abs=1e-4)
        assert high == pytest.approx(0.3998, abs=1e-4)


def test_the_truths_are_what_they_say() -> None:
    generator = np.random.default_rng(1)
    for truth in (rare(0.1), two(), sphere(0.3)):
        maps = truth.draw(generator, 200_000)
        np.testing.assert_allclose(maps.mean(0), truth.mean, atol=0.01)
        np.testing.assert_allclose(np.cov(maps.T), truth.covariance, atol=0.01)
