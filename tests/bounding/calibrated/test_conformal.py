from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from attribound.basics.errors import InputError
from attribound.bounding.calibrated.conformal import check_alpha, conformal_factor, needed, rank

RISK = 1e-6  # of a false alarm of the coverage check


def uncorrected(scores, alpha):
    """The empirical quantile, without the + 1: covers too little."""
    return sorted(scores)[math.ceil(len(scores) * (1 - alpha)) - 1]


def largest(scores, alpha):
    """Covers, but says less than it could."""
    return max(scores)


def covers(factor, scores, new, alpha) -> None:
    """The next score is below the factor with probability >= 1 - alpha, and hardly more.

    ``scores`` (draws, n) and ``new`` (draws,) come from one continuous distribution, so
    that the number of covered draws is binomial with probability k / (n + 1) exactly.
    """
    draws, count = scores.shape
    hits = sum(s <= factor(row.tolist(), alpha) for row, s in zip(scores, new, strict=True))
    below = stats.binomtest(hits, draws, 1 - alpha, alternative="less").pvalue
    assert below > RISK, f"coverage {hits / draws:.3f} below {1 - alpha:g}"
    above = stats.binomtest(hits, draws, 1 - alpha + 1 / (count + 1), alternative="greater").pvalue
    assert above > RISK, f"coverage {hits / draws:.3f} far above {1 - alpha:g}"


def draw(count, draws=20_000):
    """Scores of a heavy tail."""
    every = np.random.default_rng(0).lognormal(0, 1, (draws, count + 1))
    return every[:, :-1], every[:, -1]


@pytest.mark.parametrize(("count", "alpha"), [(9, 0.1), (20, 0.1), (20, 0.25), (39, 0.05)])
def test_coverage_is_what_is_promised(count, alpha) -> None:
    scores, new = draw(count)
    covers(conformal_factor, scores, new, alpha)
    hits = sum(
        s <= conformal_factor(row.tolist(), alpha) for row, s in zip(scores, new, strict=True)
    )
    exact = rank(count, alpha) / (count + 1)
    assert stats.binomtest(hits, len(new), exact).pvalue > RISK
    assert hits < len(new)


@pytest.mark.parametrize("broken", [uncorrected, largest])
def test_the_check_rejects_a_wrong_quantile(broken) -> None:
    with pytest.raises(AssertionError, match="coverage"):
        covers(broken, *draw(30), 0.1)


def test_ties_cover_no_less() -> None:
    scores, new = (np.floor(2 * values) for values in draw(20))
    hits = sum(s <= conformal_factor(row.tolist(), 0.1) for row, s in zip(scores, new, strict=True))
    assert stats.binomtest(hits, len(new), 0.9, alternative="less").pvalue > RISK


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 19, 99, 100, 199])
def test_the_order_statistic_is_the_one_of_the_definition(count, alpha) -> None:
    """The smallest of the scores with at least (n + 1)(1 - alpha) scores at or below it."""
    scores = np.random.default_rng(count).permutation(count).astype(float)
    hundredths = (count + 1) * (100 - round(100 * alpha))  # in whole numbers
    enough = [s for s in scores if 100 * (scores <= s).sum() >= hundredths]
    assert conformal_factor(scores.tolist(), alpha) == min(enough, default=math.inf)
    assert (count >= needed(alpha)) == bool(enough)


def test_alpha_is_the_decimal_that_was_written() -> None:
    """In binary (1 - 0.7) * 10 is a little more than 3, and its ceiling 4."""
    assert math.ceil((1 - 0.7) * 10) == 4
    assert rank(9, 0.7) == 3


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, math.nan, "0.05", None])
def test_refuses_what_is_no_probability(alpha) -> None:
    with pytest.raises(InputError, match="alpha: expected a probability of failure above 0 and"):
        check_alpha(alpha)
