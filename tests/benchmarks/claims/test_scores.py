from __future__ import annotations

import math

import numpy as np
import pytest

from attribound.auditing import cells
from claim_rows import row, table
from claims.scores import Score, factor, pool, scored


def score(bounds, attacks, first=None) -> Score:
    return Score(*(np.array(each, float) for each in (bounds, attacks, first or attacks)))


def calibration(rows):
    (cell,) = cells(table(rows))
    return cell


def test_a_bound_that_is_reached_is_not_exceeded() -> None:
    found = score([1.0, 2.0, 3.0], [1.0, 4.0, 1.5])
    assert (found.count, found.exceeded, found.share) == (3, 1, pytest.approx(1 / 3))
    assert found.slack == pytest.approx((1 + 0.5 + 2) / 3)
    assert found.worst == 2


def test_zeros_are_never_nan() -> None:
    still = score([0.0], [0.0])
    assert (still.exceeded, still.slack, still.worst) == (0, 1, 1)
    assert score([1.0], [0.0]).slack == math.inf
    exceeded = score([0.0], [1.0])
    assert (exceeded.exceeded, exceeded.worst) == (1, math.inf)


def test_pooling_is_scoring_everything_at_once() -> None:
    bounds, attacks = [1.0, 2.0, 3.0, 4.0, 1.0], [2.0, 1.0, 3.5, 1.0, 1.0]
    parts = [score(bounds[:2], attacks[:2]), score(bounds[2:], attacks[2:])]
    whole, together = score(bounds, attacks), pool(parts)
    assert (together.count, together.exceeded, together.worst) == (5, 2, whole.worst)
    assert together.slack == pytest.approx(whole.slack)
    unweighted = sum(part.slack for part in parts) / 2
    assert together.slack != pytest.approx(unweighted)


def test_the_factor_is_the_order_statistic_of_split_conformal() -> None:
    """By hand: of 39 scores the ceil(40 * .95) = 38th smallest."""
    rows = [row("calibration", float(i), first_order=10.0) for i in range(39, 0, -1)]
    assert factor(calibration(rows), "first_order") == pytest.approx(3.8)
    assert factor(calibration(rows[:18]), "first_order") == math.inf
    assert factor(calibration(rows), "mean_value") is None


def test_nothing_moved_scores_zero_and_something_from_nothing_infinity() -> None:
    still = [row("calibration", 0.0, first_order=0.0) for _ in range(38)]
    moved = row("calibration", 1.0, first_order=0.0)
    assert factor(calibration([*still, moved]), "first_order") == 0
    assert factor(calibration([moved] * 39), "first_order") == math.inf


def test_calibrated_bounds_come_from_calibration_rows_alone() -> None:
    others = [row("calibration", 1.5, first_order=1.0) for _ in range(19)]
    tests = [
        row("test", attack, first_order=1.0, adjusted=1.1, mean_value=2.0)
        for attack in (1.0, 1.2, 1.6, 3.0)
    ]
    (cell,) = scored(table([*tests, *others]))
    assert cell.factors == {"calibrated": 1.5}
    assert {claim: found.exceeded for claim, found in cell.scores.items()} == {
        "first_order": 3,
        "adjusted": 3,
        "calibrated": 2,
        "mean_value": 1,
    }
    assert cell.scores["calibrated"].slack == pytest.approx((1.5 + 1.25 + 1.5 / 1.6 + 0.5) / 4)
    more = row("calibration", 3.0, first_order=1.0)
    (leaky,) = scored(table([*tests, *others, more]))
    assert leaky.factors == {"calibrated": 3.0}, "a factor that ignores its rows would stay 1.5"


def test_claims_of_a_few_images_are_scored_on_these() -> None:
    rows = [row("test", 1.0, first_order=1.0), row("test", 2.0, first_order=1.0, certified=4.0)]
    (cell,) = scored(table(rows))
    assert cell.scores["certified"].count == 1
    assert cell.scores["certified"].slack == 2


def test_cells_without_tests_are_left_out() -> None:
    assert scored(table([row("calibration", 1.0, first_order=1.0)])) == []
    assert scored(table([])) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("network", "nat"), ("attribution", "ig-3"), ("ball", "linf"), ("epsilon", 0.1)],
)
def test_other_cells_are_never_mixed_in(name, value) -> None:
    others = [row("calibration", 2.0, first_order=1.0, **{name: value}) for _ in range(19)]
    (cell,) = scored(table([row("test", 1.0, first_order=1.0), *others]))
    assert (cell.calibrations, cell.factors, [*cell.scores]) == (0, {}, ["first_order"])


def test_which_networks_are_adversarially_trained() -> None:
    names = ["at", "nat", "at-b5", "nat-b5", "mlp-at-b20", "mlp-nat-b20"]
    found = scored(table([row("test", 1.0, first_order=1.0, network=name) for name in names]))
    assert [cell.network for cell in found] == names, "in the order in which they come"
    assert [cell.network for cell in found if cell.adversarial] == ["at", "at-b5", "mlp-at-b20"]


def test_the_larger_deviation_counts_in_tests_and_in_calibration() -> None:
    def cell(second: float, calibrating: float):
        tests = [row("test", a, second, first_order=1.0, mean_value=2.5) for a in (0.5, 1.5)]
        others = [row("calibration", 1.5, calibrating, first_order=1.0) for _ in range(19)]
        (found,) = scored(table([*tests, *others]))
        return found

    weak, strong = cell(0.0, 0.0), cell(2.0, 1.75)
    assert weak.scores["first_order"].exceeded == 1
    assert weak.scores["first_order"].only_second == 0
    assert strong.factors["calibrated"] == 1.75, "the factor is of the same attacks as the tests"
    first = strong.scores["first_order"]
    assert (first.exceeded, first.only_second, first.worst) == (2, 1, 2.0)
    calibrated, mean_value = strong.scores["calibrated"], strong.scores["mean_value"]
    assert (calibrated.exceeded, calibrated.only_second) == (2, 2)
    assert (mean_value.exceeded, mean_value.only_second) == (0, 0)
    assert pool([first, first]).only_second == 2
