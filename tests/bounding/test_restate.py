from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.restate import restate


@pytest.fixture
def first() -> ab.Bound:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    return ab.bound(attribution, x, ab.L2Ball(0.1))


def test_keeps_what_is_not_said_anew(first) -> None:
    value = 2 * first.euclidean
    again = restate(first, value, ab.Claim.MEAN_VALUE, ("a", "b"), first.products + 7)
    assert again.claim is ab.Claim.MEAN_VALUE
    assert again.source == ("a", "b")
    assert again.products.tolist() == (first.products + 7).tolist()
    assert again.xi is first.xi
    assert again.direction is first.direction
    torch.testing.assert_close(again.euclidean, value)
    torch.testing.assert_close(again.values["mean-value (searched)"], value)
    assert first.values.keys() < again.values.keys()


def test_angles_follow_the_new_value(first) -> None:
    wide = restate(
        first, 2 * first.attribution_norm, ab.Claim.CERTIFIED, ("a", "b"), first.products
    )
    assert wide.degrees.tolist() == [180, 180]
    assert all(ab.Status.VACUOUS in status for status in wide.status)
    assert "says nothing useful" in wide.status[0].explanation
    back = restate(wide, first.euclidean, ab.Claim.CALIBRATED, ("a", "b"), first.products)
    torch.testing.assert_close(back.degrees, first.degrees)
    assert all(ab.Status.ANGLE_UNBOUNDED not in status for status in back.status)


def test_only_certificates_are_vacuous(first) -> None:
    wide = restate(
        first, 2 * first.attribution_norm, ab.Claim.MEAN_VALUE, ("a", "b"), first.products
    )
    assert all(status == ab.Status.ANGLE_UNBOUNDED for status in wide.status)


def test_adjusted_is_raised_only_by_what_was_seen(first) -> None:
    """A mean-value bound below a deviation that was seen has an adjusted value that is not."""
    low = 0.1 * first.euclidean
    searched = restate(first, low, ab.Claim.MEAN_VALUE, ("a", "b"), first.products)
    torch.testing.assert_close(searched.adjusted, first.adjusted)
    proved = restate(first, low, ab.Claim.CERTIFIED, ("a", "b"), first.products)
    torch.testing.assert_close(proved.adjusted, low)
