from __future__ import annotations

import math
from itertools import count

import pytest

from claims.scores import cells, factor, pool, score
from claims.store import SCHEMA

SAMPLES = count()


def row(role: str, attack: float, **columns):
    """A row of an image of its own."""
    common = {"network": "mlp-at-b5", "attribution": "saliency", "p": 2.0, "epsilon": 0.05}
    common |= {"sample": next(SAMPLES), "role": role, "attack": attack}
    return {**dict.fromkeys(SCHEMA.names), **common, **columns}


def twice(rows, attack: float = 0.0):
    """The rows and their second pass, by default one that moves nothing."""
    again = [{**each, "role": f"again-{each['role']}", "attack": attack} for each in rows]
    return [*rows, *again]


def test_a_bound_that_is_reached_is_not_broken() -> None:
    found = score(bounds=[1.0, 2.0, 3.0], attacks=[1.0, 4.0, 1.5])
    assert (found.count, found.broken, found.share) == (3, 1, pytest.approx(1 / 3))
    assert found.slack == pytest.approx((1 + 0.5 + 2) / 3)
    assert found.worst == 2


def test_zeros_are_never_nan() -> None:
    still = score([0.0], [0.0])
    assert (still.broken, still.slack, still.worst) == (0, 1, 1)
    assert score([1.0], [0.0]).slack == math.inf
    broken = score([0.0], [1.0])
    assert (broken.broken, broken.worst) == (1, math.inf)


def test_pooling_is_scoring_everything_at_once() -> None:
    bounds, attacks = [1.0, 2.0, 3.0, 4.0, 1.0], [2.0, 1.0, 3.5, 1.0, 1.0]
    parts = [score(bounds[:2], attacks[:2]), score(bounds[2:], attacks[2:])]
    whole = score(bounds, attacks)
    together = pool(parts)
    assert (together.count, together.broken, together.worst) == (5, 2, whole.worst)
    assert together.slack == pytest.approx(whole.slack)
    unweighted = sum(part.slack for part in parts) / 2
    assert together.slack != pytest.approx(unweighted)


def test_the_factor_is_the_order_statistic_of_split_conformal() -> None:
    """By hand: of 39 scores the ceil(40 * .95) = 38th smallest."""
    rows = [row("calibration", attack=float(i), first_order=10.0) for i in range(39, 0, -1)]
    assert factor(rows, "first_order") == pytest.approx(3.8)
    assert factor(rows[:18], "first_order") == math.inf
    assert factor(rows, "mean_value") is None


def test_nothing_moved_scores_zero_and_something_from_nothing_infinity() -> None:
    still = [row("calibration", attack=0.0, first_order=0.0) for _ in range(38)]
    assert factor([*still, row("calibration", 1.0, first_order=0.0)], "first_order") == 0
    assert factor([row("calibration", 1.0, first_order=0.0)] * 39, "first_order") == math.inf


def test_calibrated_bounds_come_from_calibration_rows_alone() -> None:
    calibration = [row("calibration", attack=1.5, first_order=1.0) for _ in range(19)]
    tests = [
        row("test", attack=attack, first_order=1.0, adjusted=1.1, mean_value=2.0)
        for attack in (1.0, 1.2, 1.6, 3.0)
    ]
    (cell,) = cells(twice([*tests, *calibration]))
    assert cell.factors == {"calibrated": 1.5}
    assert {claim: found.broken for claim, found in cell.scores.items()} == {
        "first_order": 3,
        "adjusted": 3,
        "calibrated": 2,
        "mean_value": 1,
    }
    assert cell.scores["calibrated"].slack == pytest.approx((1.5 + 1.25 + 1.5 / 1.6 + 0.5) / 4)
    more = row("calibration", attack=3.0, first_order=1.0)
    (leaky,) = cells(twice([*tests, *calibration, more]))
    assert leaky.factors == {"calibrated": 3.0}, "a factor that ignores its rows would stay 1.5"


def test_claims_of_a_few_images_are_scored_on_these() -> None:
    rows = [row("test", 1.0, first_order=1.0), row("test", 2.0, first_order=1.0, certified=4.0)]
    (cell,) = cells(twice(rows))
    assert cell.scores["certified"].count == 1
    assert cell.scores["certified"].slack == 2


def test_cells_without_tests_and_linear_rows_are_left_out() -> None:
    linear = {**row("linear", 1.0), "epsilon": None}
    assert cells([*twice([row("calibration", 1.0, first_order=1.0)]), linear]) == []


def test_which_networks_are_adversarially_trained() -> None:
    names = ["at", "nat", "at-b5", "nat-b5", "mlp-at-b20", "mlp-nat-b20"]
    found = cells(twice([row("test", 1.0, first_order=1.0, network=name) for name in names]))
    assert [cell.network for cell in found if cell.adversarial] == ["at", "at-b5", "mlp-at-b20"]


def test_the_larger_deviation_counts_in_tests_and_in_calibration() -> None:
    tests = [row("test", attack, first_order=1.0, mean_value=2.5) for attack in (0.5, 1.5)]
    calibration = [row("calibration", attack=1.5, first_order=1.0) for _ in range(19)]
    (weak,) = cells([*twice(tests), *twice(calibration)])
    assert weak.scores["first_order"].broken == 1
    assert weak.scores["first_order"].only_again == 0
    (cell,) = cells([*twice(tests, attack=2.0), *twice(calibration, attack=1.75)])
    assert cell.factors["calibrated"] == 1.75, "the factor is of the same attacks as the tests"
    first = cell.scores["first_order"]
    assert (first.broken, first.only_again, first.worst) == (2, 1, 2.0)
    assert (cell.scores["calibrated"].broken, cell.scores["calibrated"].only_again) == (2, 2)
    assert (cell.scores["mean_value"].broken, cell.scores["mean_value"].only_again) == (0, 0)
    assert pool([first, first]).only_again == 2


def test_images_without_a_second_pass_do_not_count() -> None:
    both = twice([row("test", 1.0, first_order=1.0)])
    lacking = [row("test", 9.0, first_order=1.0), row("calibration", 9.0, first_order=1.0)]
    (cell,) = cells([*both, *lacking])
    assert (cell.scores["first_order"].count, cell.calibrations) == (1, 0)
    assert cells(lacking) == []
