from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.calibrated import CALIBRATED
from attribound.bounding.certified import CERTIFIED
from attribound.bounding.mean_value import MEAN_VALUE
from attribound.bounding.restate import Reservations, counted, restate
from attribound.results import Status

SOURCE = ("a", "b")


@pytest.fixture
def first() -> ab.Bound:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    return ab.bound(attribution, x, ab.L2Ball(0.1))


def test_keeps_what_is_not_said_anew(first) -> None:
    value = 2 * first.euclidean
    again = restate(first, value, MEAN_VALUE, SOURCE, first.products + 7)
    assert again.claim is MEAN_VALUE
    assert again.source == SOURCE
    assert again.products.tolist() == (first.products + 7).tolist()
    assert again.xi is first.xi
    assert again.ball is first.ball
    assert again.direction is first.direction
    torch.testing.assert_close(again.euclidean, value)
    torch.testing.assert_close(again.values["mean-value (searched)"], value)
    assert first.values.keys() < again.values.keys()


def test_angles_follow_the_new_value(first) -> None:
    vacuous = Reservations(unbounded=ab.Status.VACUOUS)
    wide = restate(
        first, 2 * first.attribution_norm, CERTIFIED, SOURCE, first.products, reservations=vacuous
    )
    assert wide.degrees.tolist() == [180, 180]
    assert all(ab.Status.VACUOUS in status for status in wide.status)
    assert all(ab.Status.ANGLE_UNBOUNDED in status for status in wide.status)
    assert "says nothing useful" in wide.status[0].explanation
    back = restate(wide, first.euclidean, CALIBRATED, SOURCE, first.products)
    torch.testing.assert_close(back.degrees, first.degrees)
    assert all(ab.Status.ANGLE_UNBOUNDED not in status for status in back.status)


def test_nothing_is_vacuous_unless_it_is_said(first) -> None:
    wide = restate(first, 2 * first.attribution_norm, MEAN_VALUE, SOURCE, first.products)
    assert all(status == ab.Status.ANGLE_UNBOUNDED for status in wide.status)


def test_only_certificates_are_vacuous() -> None:
    model, x = cases.tabular()
    wide = ab.bounds(
        ab.Saliency(model), x, ab.L2Ball(50.0), claims=["first_order", "adjusted", "certified"]
    )
    for claim, bound in wide.items():
        assert all(ab.Status.ANGLE_UNBOUNDED in status for status in bound.status)
        told = [ab.Status.VACUOUS in status for status in bound.status]
        assert told == [claim == "certified"] * len(x)


def test_reservations_of_the_first_order_bound_alone_are_dropped(first) -> None:
    """A certificate does not rest on the solver that reached its limit, a mean value does."""
    attribution, x = cases.quadratic([-5.0, 4.9, 3.0, 1.0, 0.5])
    hasty = ab.FirstOrder(ab.SpectralSolver(1e-9, max_iterations=1))
    limited = ab.bound(attribution, x, ab.L2Ball(0.1), method=hasty)
    assert all(ab.Status.ITERATION_LIMIT in status for status in limited.status)
    told = limited, limited.euclidean, CERTIFIED, SOURCE, limited.products
    kept = restate(*told)
    assert all(ab.Status.ITERATION_LIMIT in status for status in kept.status)
    dropped = restate(*told, reservations=Reservations(outdated=ab.Status.ITERATION_LIMIT))
    assert all(ab.Status.ITERATION_LIMIT not in status for status in dropped.status)


def test_adjusted_is_raised_only_by_what_was_seen(first) -> None:
    """A value below a deviation that was seen keeps an adjusted value that is not."""
    low = 0.1 * first.euclidean
    searched = restate(first, low, MEAN_VALUE, SOURCE, first.products, adjusted=first.adjusted)
    torch.testing.assert_close(searched.adjusted, first.adjusted)
    assert (searched.adjusted_degrees > searched.degrees).all()
    proved = restate(first, low, CERTIFIED, SOURCE, first.products)
    torch.testing.assert_close(proved.adjusted, low)


def test_the_mean_value_bound_keeps_what_the_first_order_bound_saw() -> None:
    model, x = cases.tabular()
    both = ab.bounds(ab.Saliency(model), x, ab.L2Ball(0.3))
    first, searched = both["first_order"], both["mean_value"]
    expected = torch.maximum(searched.euclidean, first.adjusted)
    torch.testing.assert_close(searched.adjusted, expected, rtol=0, atol=0)


def test_steps_that_are_missing_are_said_beside_everything_else(first) -> None:
    """And no longer where they are there."""
    other = Status.ITERATION_LIMIT | Status.KINKED
    told = replace(first, status=(other, other | Status.INCOMPLETE))
    assert counted(told, None) is told
    steps = torch.tensor([128, 0])
    said = counted(told, steps)
    assert said.status == (other | Status.INCOMPLETE, other)
    assert said.steps_needed is steps
    assert told.steps_needed is None
