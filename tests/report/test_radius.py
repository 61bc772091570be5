"""Bounds between measured radii: closed forms, and that they stay upper values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attribound.bounding.cosine import cosine_and_degrees
from attribound.report.radius import attack_at, bound_at, degrees
from attribound.results import Moves

XI = np.array([2.0, 3.0, np.nan])


def concave(epsilon: float) -> np.ndarray:
    """A linearised optimum that a value range cuts: it rises more slowly than the radius."""
    return XI * np.minimum(epsilon, 0.05 + 0.5 * (epsilon - 0.05))


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05, 0.07, 0.1, 0.3])
def test_a_linear_bound_is_the_slope_times_the_radius(epsilon) -> None:
    measured = {0.05: 0.05 * XI, 0.1: 0.1 * XI}
    found = bound_at(epsilon, measured, Moves.SCALED)
    np.testing.assert_allclose(found, epsilon * XI, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.049, 0.06, 0.09, 0.15, 1.0])
def test_in_a_range_it_stays_above_the_optimum(epsilon) -> None:
    measured = {0.05: concave(0.05), 0.1: concave(0.1)}
    above = bound_at(epsilon, measured, Moves.SCALED, linear=False)
    assert (above >= concave(epsilon) * (1 - 1e-12))[:2].all()


def test_taking_a_range_for_linear_would_be_too_low() -> None:
    """What ``linear=False`` is for: scaled down from a larger ball, the optimum is missed."""
    measured = {0.1: concave(0.1)}
    low = bound_at(0.05, measured, Moves.SCALED, linear=True)
    assert (low < concave(0.05))[:2].all()


def test_a_measured_radius_gives_what_was_measured() -> None:
    values = np.array([7.0])
    for moves in Moves:
        assert bound_at(0.1, {0.1: values, 0.2: values + 1}, moves) is values


def test_nested_bounds_come_from_the_next_larger_ball() -> None:
    measured = {0.1: np.array([1.0]), 0.2: np.array([2.0]), 0.4: np.array([4.0])}
    assert bound_at(0.15, measured, Moves.NESTED) == 2.0
    assert bound_at(0.01, measured, Moves.NESTED) == 1.0
    assert bound_at(0.5, measured, Moves.NESTED) is None
    assert bound_at(0.15, measured, Moves.MEASURED) is None


def test_attacks_come_from_all_smaller_balls() -> None:
    measured = {0.1: np.array([1.0, 5.0, np.nan]), 0.2: np.array([2.0, 4.0, 3.0])}
    np.testing.assert_array_equal(attack_at(0.1, measured), [1.0, 5.0, np.nan])
    np.testing.assert_array_equal(attack_at(0.9, measured), [2.0, 5.0, 3.0])
    assert attack_at(0.05, measured) is None


def test_angles_are_those_of_the_library_and_missing_ones_stay_missing() -> None:
    deviation, norm = np.array([0.1, 2.0, 0.0, np.inf, np.nan]), np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    expected = cosine_and_degrees(torch.tensor(deviation[:4]), torch.tensor(norm[:4]))[1].numpy()
    found = degrees(deviation, norm)
    np.testing.assert_array_equal(found[:4], expected)
    assert found.tolist()[1:4] == [180.0, 180.0, 180.0]
    assert np.isnan(found[4])
