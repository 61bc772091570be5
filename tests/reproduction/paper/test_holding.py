"""The claims that hold, beside the one that does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import paper_made as made
from attribound.auditing.rows import SCHEMA, table
from attribound.bounding.calibrated.conformal import conformal_factor
from reproduction.paper import holding, registry
from reproduction.paper.items import CERTIFIED, RunSpec
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
