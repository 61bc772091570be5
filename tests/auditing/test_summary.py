from __future__ import annotations

import json
import math

import pytest
from scipy import stats

from attribound.auditing.rows import schema, table
from attribound.auditing.settings import AscentSettings, AuditSettings
from attribound.auditing.summary import BrokenShare, summarise, totals, wilson

SETTINGS = AuditSettings(
    "m", "d", claims=("first_order", "certified"), attacks={"ascent": AscentSettings()}
)


def row(sample, attack, bound, **more) -> dict:
    made = {
        "sample": sample,
        "batch": 0,
        "label": 1,
        "attribution": "ig",
        "norm": "l2",
        "p": 2.0,
        "epsilon": 0.1,
        "features": 4,
        "prediction": 1,
        "target": 1,
        "correct": True,
        "attribution_norm": 2.0,
        "adjusted": bound,
        "adjusted_degrees": 10.0,
        "adjusted_broken": attack > bound,
        "first_order": bound,
        "first_order_degrees": 10.0,
        "first_order_status": "converged",
        "first_order_source": "theorem 1",
        "first_order_products": 20,
        "first_order_seconds": 0.5,
        "first_order_broken": attack > bound,
        "first_order_degrees_broken": False,
        "certified_status": "does not apply: a ResNet",
        "attack_ascent": attack,
        "attack_ascent_mean": attack / 2,
        "attack_ascent_degrees": 5.0,
        "attack_ascent_label_kept": True,
        "attack_ascent_kendall": 0.5,
        "attack_ascent_topk": 0.75,
        "attack_ascent_seconds": 1.0,
        "attack": attack,
        "attack_by": "ascent",
        "attack_degrees": 5.0,
        "attack_label_kept": True,
        "kendall": 0.5,
        "topk": 0.75,
    }
    return {**made, **more}


def failing(sample, **more) -> dict:
    known = ("batch", "label", "attribution", "norm", "p", "epsilon", "features")
    made = row(sample, 1.0, 1.0)
    return {"sample": sample, **{key: made[key] for key in known}, "error": "boom", **more}


def summary(*rows):
    (found,) = summarise(table(rows, schema(SETTINGS)))
    return found


def test_means_slack_and_broken_by_hand() -> None:
    found = summary(row(0, 1.0, 2.0), row(1, 3.0, 2.0), row(2, 2.0, 8.0, correct=False))
    claim = found.claims["first_order"]
    assert (found.n, found.errors, found.misclassified) == (3, 0, 1)
    assert claim.mean == pytest.approx(4.0)
    assert claim.slack == pytest.approx((2 + 2 / 3 + 4) / 3)
    assert claim.worst == pytest.approx(1.5)
    assert (claim.broken.count, claim.broken.n) == (1, 3)
    assert claim.statuses == {"converged": 3}
    assert (claim.products, claim.seconds) == (20, 1.5)
    assert found.best.mean == pytest.approx(2.0)
    assert found.best.worst == 3.0
    assert found.attacks["ascent"].mean_of_means == pytest.approx(1.0)
    assert (found.best.kendall, found.best.topk) == (0.5, 0.75)
    assert found.claims["adjusted"].broken == claim.broken


def test_failed_samples_are_counted_and_change_no_number() -> None:
    rows = [row(0, 1.0, 2.0), row(1, 3.0, 2.0)]
    clean, dirty = summary(*rows), summary(*rows, failing(2), failing(3))
    assert (dirty.n, dirty.errors) == (4, 2)
    assert dirty.claims == clean.claims
    assert dirty.best == clean.best


def test_undefined_angles_are_counted_and_in_no_mean() -> None:
    found = summary(
        row(0, 1.0, 2.0),
        row(1, 1.0, 2.0, first_order_degrees=180.0, attack_degrees=180.0),
    )
    assert (found.undefined, found.claims["first_order"].undefined) == (1, 1)
    assert found.claims["first_order"].degrees == 10.0
    assert (found.best.degrees, found.best.worst_degrees) == (5.0, 5.0)
    nothing = summary(row(0, 1.0, 2.0, first_order_degrees=180.0))
    assert nothing.claims["first_order"].degrees is None


def test_a_claim_that_never_applied_has_no_numbers_but_its_reason() -> None:
    claim = summary(row(0, 1.0, 2.0)).claims["certified"]
    assert (claim.n, claim.mean, claim.slack, claim.broken) == (0, None, None, None)
    assert claim.statuses == {"does not apply: a ResNet": 1}


def test_attributions_that_neither_move_nor_may_move_are_no_division_by_zero() -> None:
    claim = summary(row(0, 0.0, 0.0), row(1, 1.0, 0.0)).claims["first_order"]
    assert claim.slack == 0.0
    assert claim.worst == math.inf


def test_only_failed_samples_leave_an_empty_summary() -> None:
    found = summary(failing(0))
    assert (found.n, found.errors, found.best) == (1, 1, None)
    assert found.claims["first_order"].mean is None


def test_one_record_per_attribution_norm_and_epsilon_in_order() -> None:
    kinds = [("saliency", "l2", 2.0, 0.1), ("ig", "linf", math.inf, 0.01)]
    kinds += [("ig", "l2", 2.0, 0.5), ("ig", "l2", 2.0, 0.1)]
    rows = [
        row(i, 1.0, 2.0, attribution=name, norm=norm, p=p, epsilon=epsilon)
        for name, norm, p, epsilon in kinds
        for i in range(2)
    ]
    found = summarise(table(rows, schema(SETTINGS)))
    assert [(s.attribution, s.norm, s.p, s.epsilon) for s in found] == sorted(
        kinds, key=lambda kind: (kind[0], kind[2], kind[3])
    )
    assert all(each.n == 2 for each in found)
    assert totals(found)["first_order"] == BrokenShare.of(0, 8)
    assert totals(found)["certified"] is None
    assert summarise(schema(SETTINGS).empty_table()) == []


def test_records_are_json_with_infinity_as_text() -> None:
    found = summary(row(0, 1.0, math.inf))
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["claims"]["first_order"]["mean"] == "inf"
    assert record["claims"]["first_order"]["broken"]["count"] == 0
    assert record["best"]["mean"] == 1.0


@pytest.mark.parametrize(("count", "n"), [(0, 1), (0, 100), (3, 10), (10, 10), (57, 256)])
def test_wilson_against_scipy(count, n) -> None:
    truth = stats.binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert wilson(count, n) == pytest.approx((truth.low, truth.high), abs=1e-12)
    assert wilson(count, n)[0] < wilson(count, n)[1]
