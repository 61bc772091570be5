"""Which scores are among the largest, which signs and orders stay: votes and single directions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri
from scipy.stats import binom, binomtest

import attribound as ab
from attribound.attributions import FunctionAttribution
from attribound.attributions.noise import Noise
from attribound.bounding.smoothed.confidence import share_between
from attribound.bounding.smoothed.drawing import Source
from attribound.bounding.smoothed.scalars import (
    lower_values,
    pair,
    region,
    sign,
    stays_positive,
)
from attribound.bounding.smoothed.votes import Votes


class TestVotes:
    COUNTS = np.array([1000.0, 900.0, 600.0, 400.0, 100.0, 0.0])

    def votes(self) -> Votes:
        return Votes.counted(self.COUNTS, 1000, 3, 0.001)

    def test_shares_are_those_of_clopper_and_pearson(self) -> None:
        found = self.votes()
        for i, count in enumerate(self.COUNTS):
            low, high = share_between(int(count), 1000, 0.001 / 12)
            assert found.lower[i] == pytest.approx(low)
            assert found.upper[i] == pytest.approx(high)

    @pytest.mark.parametrize("t", [0.0, 0.2, 0.5, 1.0, 3.0])
    def test_in_and_out_as_published(self, t: float) -> None:
        """A share of at least p stays a majority up to a shift of Phi^-1(p)."""
        found = self.votes()
        inside, outside = found.certain(t)
        np.testing.assert_array_equal(inside, ndtr(ndtri(found.lower) - t) > 0.5)
        np.testing.assert_array_equal(outside, ndtr(ndtri(found.upper) + t) < 0.5)
        assert not (inside & outside).any()

    @pytest.mark.parametrize("t", [0.0, 0.2, 0.6])
    def test_the_published_test_of_pixels_says_the_same_on_the_same_draws(self, t: float) -> None:
        """Anani et al. (2025): certify a class of a pixel if its votes reject a share up to Phi(t).

        Binomial tests, one a pixel and class, corrected for their number; else they abstain.
        """
        inside, outside = self.votes().certain(t)
        for i, count in enumerate(self.COUNTS.astype(int)):
            for votes, certain in ((count, inside[i]), (1000 - count, outside[i])):
                test = binomtest(votes, 1000, ndtr(t), alternative="greater")
                assert (test.pvalue < 0.001 / 12) == certain

    @pytest.mark.parametrize("t", [0.0, 0.1, 0.3, 0.8])
    def test_the_published_overlap_of_ranks(self, t: float) -> None:
        """Levine et al. (2019): i stay if the i-th share is above the (2 k - i + 1)-th of all."""
        found = self.votes()
        shares = np.argsort(-found.share, kind="stable")
        lower = ndtr(ndtri(found.lower[shares]) - t)
        upper = ndtr(ndtri(found.upper[shares]) + t)
        stay = [i for i in (1, 2, 3) if lower[i - 1] > upper[2 * 3 - i]]
        assert found.overlap(t) == max(stay, default=0)

    def test_certain_at_zero_and_at_far(self) -> None:
        inside, outside = self.votes().certain(0.0)
        assert inside.tolist() == [True, True, True, False, False, False]
        assert outside.tolist() == [False, False, False, True, True, True]
        assert not any(flags.any() for flags in self.votes().certain(5.0))

    @pytest.mark.parametrize("t", [0.0, 0.1, 0.3, 0.8, 2.0])
    def test_overlap_against_every_rearrangement(self, t: float) -> None:
        """Slowly: shares anywhere in their intervals; how many of the first three can leave?"""
        found = self.votes()
        lower = ndtr(ndtri(found.lower) - t)
        upper = ndtr(ndtri(found.upper) + t)
        fewest = 3
        for leaving in range(1, 4):
            # These many insiders with the smallest lower values, outsiders with the largest upper.
            low = np.sort(lower[:3])[:leaving]
            high = np.sort(upper[3:])[::-1][:leaving]
            if low.max() <= high.min() or np.sort(low)[-1] <= np.sort(high)[0]:
                fewest = 3 - leaving
        assert found.overlap(t) <= max(fewest, 0) or fewest == 0
        assert found.overlap(0.0) == 3
        assert found.overlap(5.0) == 0

    def test_with_few_others_some_must_stay(self) -> None:
        votes = Votes.counted(np.array([500.0, 500.0, 500.0, 500.0]), 1000, 3, 0.001)
        assert votes.overlap(0.0) == 2  # only one other there is

    def test_coverage(self) -> None:
        """All intervals hold together at least as often as they say."""
        generator = np.random.default_rng(0)
        shares = np.array([0.999, 0.7, 0.5, 0.1, 0.01])
        missed = 0
        for _ in range(1000):
            found = Votes.counted(generator.binomial(200, shares).astype(float), 200, 2, 0.05)
            missed += bool(((found.lower > shares) | (found.upper < shares)).any())
        assert missed <= binom.ppf(0.999, 1000, 0.05)


class TestOfTheMethod:
    def attribution(self) -> tuple[ab.Attribution, torch.Tensor]:
        """Four scores: large and negative, two alike, and one that is noise."""

        def explain(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            fixed = torch.tensor([-2.0, 1.0, 1.0]).expand(len(x), 3)
            return torch.cat([fixed, x[:, :1] - 0.5], 1).view(-1, 2, 2)

        return ab.FunctionAttribution(explain), torch.full((2, 3), 0.5)

    def test_what_stays(self) -> None:
        explained, x = self.attribution()
        method = ab.Smoothed(draws=4000, k=1)
        mask = torch.tensor([[True, True], [False, False]])
        found = method.reasons(
            explained, x, ab.L2Ball(0.05), 0, pairs=[(0, 1), (1, 2), (0, 3)], regions=[mask]
        )
        assert found.k == 1
        assert found.inside.tolist() == [[[True, False], [False, False]]] * 2
        assert (found.outside == ~found.inside).all()
        assert found.overlap.tolist() == [1, 1]
        assert found.signs.tolist() == [[[-1.0, 1.0], [1.0, 0.0]]] * 2
        assert found.pairs.tolist() == [[True, False, True]] * 2
        assert found.regions.tolist() == [[True]] * 2
        assert "What stays in the averaged map of your network" in repr(found)

    def test_functions_are_attributions(self) -> None:
        explained, x = self.attribution()
        method = ab.Smoothed(draws=400, k=1)
        plain = method.reasons(lambda x, _: explained.fn(x, _).numpy(), x, ab.L2Ball(0.05), 0)
        made = method.reasons(explained, x, ab.L2Ball(0.05), 0)
        assert torch.equal(plain.signs, made.signs)
        assert torch.equal(plain.inside, made.inside)

    def test_far_away_nothing_does(self) -> None:
        explained, x = self.attribution()
        found = ab.Smoothed(draws=400, k=1).reasons(explained, x, ab.L2Ball(2.0), 0)
        assert not found.inside.any()
        assert not found.signs.any()
        assert found.overlap.tolist() == [0, 0]

    def test_without_signs_the_draws_are_made_once(self) -> None:
        explained, x = self.attribution()
        found = ab.Smoothed(draws=400, k=1).reasons(explained, x, ab.L2Ball(0.05), 0, signs=False)
        assert found.signs is None
        assert found.pairs.shape == (2, 0)
        assert "?" in repr(found)

    @pytest.mark.parametrize(
        "wrong", [{"pairs": [(0, 4)]}, {"pairs": [(1, 1)]}, {"regions": [torch.ones(3)]}]
    )
    def test_places_that_there_are_not(self, wrong: dict[str, object]) -> None:
        explained, x = self.attribution()
        with pytest.raises(ab.InputError, match="two places from 0 to 3, masks of 4 scores"):
            ab.Smoothed(draws=100).reasons(explained, x, ab.L2Ball(0.05), 0, **wrong)


class TestDirections:
    def source(self, seed: int, slope: float = 1.0) -> Source:
        """The map (1, 0) or (0, 1) by a half-space: shares are known."""

        def halves(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return torch.where(x[:, :1] > 0, torch.tensor([1.0, 0.0]), torch.tensor([0.0, -1.0]))

        x = torch.tensor([[0.2, 0.0]])
        noise = Noise(np.array([0.25, 0.25]))
        return Source(FunctionAttribution(halves), x, torch.tensor([0]), noise, seed, 200)

    def test_signs_orders_and_regions(self) -> None:
        """h = (.79, -.21): its first score is positive and the larger, its second negative."""
        first, second = sign(2, 0, True), sign(2, 1, False)
        wrong = sign(2, 1, True)
        both = pair(2, 0, True, 1)
        whole = region(np.ones(2), np.array([1.0, -1.0]))
        asked = [first, second, wrong, *both, whole]
        found = lower_values(self.source(0), asked, 4000, 0.001)
        near = [stays_positive(each, 0.01) for each in found]
        assert near == [True, True, False, True, True, True]
        assert not any(stays_positive(each, 3.0) for each in found)
        reverse = lower_values(self.source(0), pair(2, 1, False, 0), 4000, 0.001)
        assert not all(stays_positive(each, 0.0) for each in reverse)

    def test_what_is_said_holds(self) -> None:
        """At 1,000 samples: of the mean and the deviation, and after a shift, in closed form."""
        share = ndtr(0.2 / 0.25)
        missed = 0
        t = 0.4
        after = ndtr(0.2 / 0.25 - t)
        for seed in range(1000):
            ((lower, deviation),) = lower_values(self.source(seed), [sign(2, 0, True)], 200, 0.05)
            wrong = lower > share or deviation**2 < share * (1 - share)
            gone = np.sqrt(np.expm1(t * t))
            missed += bool(wrong or after < lower - deviation * gone)
        assert missed <= binom.ppf(0.999, 1000, 0.05)

    def test_an_empty_region(self) -> None:
        assert not region(np.zeros(2), np.ones(2)).any()
