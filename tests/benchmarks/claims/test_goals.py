from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from claims import goals
from claims.goals import Goal, chance, standard_error
from claims.scores import Score, Scored
from claims.store import LINEAR as COLUMNS

LINEAR = {
    **dict.fromkeys(COLUMNS.names),
    "role": "linear",
    "features": 784,
    "theorem2": 1.0,
    "theorem2_products": 784,
    "theorem2_seconds": 4.0,
    "corollary1": 2.0,
    "norm_lower": 0.9,
    "norm_upper": 0.93,
    "norm_products": 160,
    "norm_seconds": 1.0,
}


def score(count: int, exceeded: int, slack: float, worst: float) -> Score:
    """So many bounds, of which so many are exceeded by ``worst``; attacks move everything by 1."""
    below = np.full(exceeded, 1 / worst)
    above = np.full(count - exceeded, (slack * count - below.sum()) / (count - exceeded))
    ones = np.ones(count)
    found = Score(np.concatenate([below, above]), ones, ones)
    assert (found.count, found.exceeded) == (count, exceeded)
    assert found.slack == pytest.approx(slack)
    return found


def cell(network: str = "at", calibrations: int = 100, factors=None, **scores: Score) -> Scored:
    return Scored(network, "saliency", "l2 0.05", calibrations, factors or {}, scores)


def linear(rows, features: int, network: str | None = None) -> list[Goal]:
    return goals.linear(pa.Table.from_pylist(rows, COLUMNS), features, network)


def verdicts(found: list[Goal]) -> dict[str, str]:
    return {goal.text: goal.verdict for goal in found}


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal("x", 1.0, "<=", 1.0), "holds"),
        (Goal("x", 1.1, "<=", 1.0), "fails"),
        (Goal("x", 4.0, ">=", 4.0), "holds"),
        (Goal("x", 3.9, ">=", 4.0), "fails"),
        (Goal("x", math.inf, "<=", 1.0), "fails"),
        (Goal("x", math.nan, "<=", 1.0), "not measured"),
        (Goal("x", 3.0), ""),
    ],
)
def test_the_verdict_is_the_comparison(goal, verdict) -> None:
    assert goal.verdict == verdict


def test_a_goal_that_is_missed_in_one_cell_is_seen_though_the_mean_holds() -> None:
    good, bad = score(100, 0, 1.2, 0.9), score(100, 2, 2.5, 1.1)
    found = verdicts(goals.mean_value([cell(mean_value=good)] * 3 + [cell(mean_value=bad)]))
    assert (
        found["adversarially trained: share exceeded, all 400 pairs of image and ball"] == "holds"
    )
    assert found["adversarially trained: share exceeded, worst cell"] == "fails"
    assert found["adversarially trained: mean slack"] == "holds"
    assert found["adversarially trained: mean slack, worst cell"] == "fails"


def test_naturally_trained_networks_do_not_enter_the_goals_of_the_others() -> None:
    found = goals.mean_value([cell("nat", mean_value=score(100, 50, 9.0, 2.0))])
    assert found[0].verdict == "not measured"
    natural = next(goal for goal in found if goal.text.startswith("naturally"))
    assert (natural.measured, natural.verdict) == (0.5, "")


def test_the_standard_error_is_that_of_a_simulation() -> None:
    """Uniform scores, the 96th of 100 as factor, 100 tests: the spread of the share above."""
    generator = np.random.default_rng(0)
    factors = np.sort(generator.random((20000, 100)), axis=1)[:, 95]
    shares = (generator.random((20000, 100)) > factors[:, None]).mean(1)
    assert standard_error(100, 100) == pytest.approx(shares.std(), rel=0.02)
    assert chance(100, 100, 0.1) == pytest.approx((shares > 0.1).mean(), rel=0.1)
    tests_alone = math.sqrt(0.05 * 0.95 / 100)
    assert tests_alone != pytest.approx(shares.std(), rel=0.2)


def test_calibrated_bounds_are_held_against_promise_and_mean_value() -> None:
    fine = cell(
        factors={"calibrated": 1.1},
        calibrated=score(100, 6, 1.2, 1.3),
        mean_value=score(100, 0, 1.5, 0.9),
    )
    assert set(verdicts(goals.calibrated([fine])).values()) == {"holds", ""}
    often = cell(
        factors={"calibrated": 1.1},
        calibrated=score(100, 20, 1.6, 1.3),
        mean_value=score(100, 0, 1.5, 0.9),
    )
    found = verdicts(goals.calibrated([often]))
    assert found["share exceeded, all cells"] == "fails"
    assert found["mean slack / that of mean-value, mean of cells"] == "fails"
    assert found["cells with more slack than mean-value, of 1"] == "fails"


def test_without_enough_calibration_nothing_is_claimed() -> None:
    few = cell(
        calibrations=10,
        factors={"calibrated": math.inf},
        calibrated=score(100, 0, math.inf, 1.0),
    )
    found = goals.calibrated([few])
    assert {goal.verdict for goal in found} == {"not measured"}
    assert all("nan" not in goal.goal for goal in found)


def test_one_exceeded_certificate_fails() -> None:
    held, exceeded = score(25, 0, 1.3, 0.9), score(25, 1, 1.3, 1.01)
    small = cell("mlp-at-b5", certified=held)
    assert set(verdicts(goals.certified([small])).values()) == {"holds"}
    assert goals.certified([small, cell("nat", certified=exceeded)])[0].verdict == "fails"
    loose = goals.certified([cell("mlp-at-b5", certified=score(25, 0, 1.51, 0.9))])
    assert [goal.verdict for goal in loose] == ["holds", "fails"]


def test_the_linear_problem_is_judged_at_its_own_size() -> None:
    found = linear([LINEAR], 784)
    assert {goal.verdict for goal in found} == {"holds", ""}
    assert found[4].measured == pytest.approx(4.9)
    assert {goal.verdict for goal in linear([LINEAR], 3072)} == {"not measured"}
    mine, other = ({**LINEAR, "network": name} for name in ("mine", "other"))
    alone = linear([mine, {**other, "norm_upper": 9.0}], 784, "mine")
    assert {goal.verdict for goal in alone} == {"holds", ""}
    slow = {**LINEAR, "norm_products": 300}
    assert linear([slow], 784)[4].verdict == "fails"
    above = {**LINEAR, "norm_upper": 1.04}
    assert [goal.verdict for goal in linear([LINEAR] * 9 + [above], 784)[:2]] == [
        "holds",
        "fails",
    ]
