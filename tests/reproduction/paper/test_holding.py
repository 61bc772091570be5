"""The claims that hold, beside the one that does not.

Also: Kendall against T_c across models, in runs where the order is known.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import paper_made as made
from attribound.auditing.rows import SCHEMA, table
from attribound.bounding.calibrated.conformal import conformal_factor
from reproduction.paper import holding, registry
from reproduction.paper.angle_claim import kendall_and_angle
from reproduction.paper.items import CERTIFIED, METHODS, SMOOTHED, RunSpec
from reproduction.paper.judging import FAILS, HOLDS, UNDECIDED, UNKNOWN
from reproduction.paper.lookup import Place

PLACE = Place("mnist", "l2", "0.05")
PAPER, STRONG = (RunSpec("mnist", "at", part) for part in ("paper", "strong"))


@pytest.mark.parametrize("n", [3, 8, 9, 10, 19, 40])
def test_the_factor_is_that_of_the_library(n) -> None:
    scores = np.random.default_rng(n).uniform(size=n)
    assert holding.conformal(scores) == conformal_factor(list(scores), 0.1)


def test_half_of_the_samples_give_the_factor_and_the_others_are_held_against_it() -> None:
    bound = np.full(20, 2.0)
    attack = 2.0 * np.concatenate([np.arange(1, 11) / 10, np.full(10, 0.5)])
    found = holding.calibrated(bound, attack)
    assert found["calibrated_factor"] == pytest.approx(1.0)
    assert found["calibrated"] == pytest.approx(2.0)
    assert found["exceeded_calibrated"] == 0
    attack[-1] = 3.0
    assert holding.calibrated(bound, attack)["exceeded_calibrated"] == pytest.approx(10)
    assert holding.calibrated(bound[:16], attack[:16]) == {}  # eight give no finite factor


def tables(strength: float = 0.6):
    return {spec: made.audit(spec, strength=strength) for spec in (PAPER, STRONG)}


def certified(value: float, samples: list[int]):
    known = {"batch": 0, "label": 1, "attribution": "ig", "ball": "l2", "epsilon": 0.05}
    rows = [
        {
            **known,
            "sample": i,
            "features": 784,
            "attacks": [],
            "bounds": [{"claim": "certified", "euclidean": value}],
        }
        for i in samples
    ]
    return table(rows, SCHEMA)


def test_every_claim_is_held_against_the_furthest_attack() -> None:
    given = tables()
    given[RunSpec("mnist", "at", CERTIFIED)] = certified(1e-9, [0, 10])
    found, reason = holding.claim_numbers(made.MadeRuns(given), PLACE, "at")
    assert reason == ""
    assert found["mean_value_factor"] == pytest.approx(2)  # as it was made
    assert found["certified"] == pytest.approx(1e-9)
    assert found["exceeded_certified"] == 100
    assert found["exceeded_mean_value"] == 0
    far, _ = holding.claim_numbers(made.MadeRuns(tables(3.0)), PLACE, "at")
    assert far["exceeded"] > found["exceeded"]
    assert far["exceeded_mean_value"] > 0
    assert "certified" not in far
    assert math.isfinite(far["bound_se"])


def averaged(bounds: list[float], beyond: list[bool | None], far: list[bool] | None = None):
    """Samples with these bounds on the averaged map, and whether attacks on it went beyond."""
    known = {"batch": 0, "label": 1, "attribution": "ig", "ball": "l2", "epsilon": 0.05}
    rows = [
        {
            **known,
            "sample": i,
            "features": 784,
            "attacks": [],
            "bounds": [
                {
                    "claim": "smoothed",
                    "degrees": most,
                    "similarity": 0.9,
                    "degrees_exceeded": turned,
                    "exceeded": None if turned is None else bool(far and far[i]),
                }
            ],
            # Turned by more than the bound, which may be rounding: the row knows.
            "averaged": None if turned is None else {"by": "a", "deviation": 1, "degrees": 99},
        }
        for i, (most, turned) in enumerate(zip(bounds, beyond, strict=True))
    ]
    return table(rows, SCHEMA)


def test_averaged_maps_are_held_against_attacks_on_them() -> None:
    given = tables()
    given[RunSpec("mnist", "at", SMOOTHED)] = averaged([10.0, 20.0, 30.0], [False, True, None])
    found, _ = holding.claim_numbers(made.MadeRuns(given), PLACE, "at")
    assert found["averaged"] == pytest.approx(20)
    assert found["similarity"] == pytest.approx(0.9)
    assert found["exceeded_averaged"] == 50  # of the two that were attacked
    given[RunSpec("mnist", "at", SMOOTHED)] = averaged([9, 9, 9], [False] * 3, [True, False, True])
    both, _ = holding.claim_numbers(made.MadeRuns(given), PLACE, "at")
    assert both["exceeded_averaged"] == pytest.approx(200 / 3)  # further, though not turned
    given[RunSpec("mnist", "at", SMOOTHED)] = averaged([10.0], [None])
    alone, _ = holding.claim_numbers(made.MadeRuns(given), PLACE, "at")
    assert alone["exceeded_averaged"] is None
    assert "averaged" not in holding.claim_numbers(made.MadeRuns(tables()), PLACE, "at")[0]


def test_what_is_missing_has_its_reason(tmp_path) -> None:
    shown = holding.grid(made.MadeRuns(tables()))
    assert shown.blocks[0].title == "MNIST, l2, ε = 0.05"
    assert shown.blocks[1].title == "MNIST, l∞, ε = 0.05"
    reasons = {row.title: row.reason for row in shown.blocks[0].rows}
    assert reasons["AT"] == ""
    assert reasons["CE"] == "not run yet"
    assert registry.ITEMS["holding"] is holding.ITEM
    paths = holding.make(made.MadeRuns({}), tmp_path)
    assert [path.suffix for path in paths] == [".md", ".tex", ".json"]


MODELS = tuple(METHODS)
FALLING = [0.9 - 0.05 * i for i in range(len(MODELS))]


def _set(ratio: float, tau: float, row: dict) -> None:
    made.bound_of(row, "first_order")["euclidean"] = ratio * row["attribution_norm"]
    for attack in row["attacks"]:
        for trial in attack["repeats"]:
            trial["kendall"] = tau


def runs(kendall: list[float], ratios: dict[str, float] | None = None) -> made.MadeRuns:
    """MNIST, with ratios T_e / |g| that grow from model to model."""
    tables = {}
    for i, (model, tau) in enumerate(zip(MODELS, kendall, strict=False)):
        spec = RunSpec("mnist", model, "paper")
        ratio = (ratios or {}).get(model, 0.1 + 0.1 * i)
        tables[spec] = made.changed(made.audit(spec), partial(_set, ratio, tau))
    return made.MadeRuns(tables)


@pytest.mark.parametrize(
    ("kendall", "verdict", "sign"), [(FALLING, HOLDS, -1), (FALLING[::-1], FAILS, 1)]
)
def test_it_is_the_rank_correlation_across_models(kendall, verdict, sign) -> None:
    own = kendall_and_angle(runs(kendall), "paper")
    assert (own.verdict, own.n) == (verdict, 7)
    rho, p, n = own.numbers["mnist"]["ours"]
    assert (rho, n) == (pytest.approx(sign), 7)
    assert p == pytest.approx(2 / 5040)
    assert own.numbers["cifar10"]["ours"] is None
    assert own.numbers["cifar10"]["paper"][0] < 0


def test_what_chance_would_give_is_not_called_a_success() -> None:
    nearly = [0.8, 0.9, 0.7, 0.85, 0.6, 0.75, 0.78]
    own = kendall_and_angle(runs(nearly), "paper")
    rho, p, _ = own.numbers["mnist"]["ours"]
    assert rho < 0
    assert p > 0.05
    assert own.verdict == UNDECIDED


def test_a_model_without_a_bound_on_its_angle_has_the_largest_and_is_named() -> None:
    """Left out, it could not speak against the claim."""
    against = kendall_and_angle(runs(FALLING, {"ce": 1.5}), "paper")
    rho, _, n = against.numbers["mnist"]["ours"]
    assert (n, against.n) == (7, 7)
    assert rho > -1
    assert "with CE at 180°" in against.text
    speaks_for = kendall_and_angle(runs(FALLING, {MODELS[-1]: 1.5}), "paper")
    assert speaks_for.numbers["mnist"]["ours"][0] == pytest.approx(-1)


def test_only_models_that_were_ranked_are_counted() -> None:
    given = runs(FALLING)
    spec = RunSpec("cifar10", "at", "paper")
    given.given[spec] = made.audit(spec)
    own = kendall_and_angle(given, "paper")
    assert own.numbers["cifar10"]["ours"] is None
    assert own.n == len(MODELS)


def test_three_models_are_too_few() -> None:
    assert kendall_and_angle(runs(FALLING[:3]), "paper").verdict == UNKNOWN
