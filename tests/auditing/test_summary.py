from __future__ import annotations

import json
import math

import pytest
from scipy import stats

from attribound.auditing.rows import SCHEMA, table
from attribound.auditing.summary import summarise, totals, yours_totals
from attribound.auditing.summary_records import ExceededShare, wilson


def row(sample, attack, bound, **more) -> dict:
    """A sample with a bound, one that does not apply, and an attack of two repeats."""
    degrees = more.pop("bound_degrees", 10.0)
    turned = more.pop("attack_degrees", 5.0)
    found = {
        "deviation": attack,
        "degrees": turned,
        "label_kept": True,
        "kendall": 0.5,
        "topk": 0.75,
    }
    made = {
        "sample": sample,
        "batch": 0,
        "label": 1,
        "attribution": "ig",
        "ball": "l2",
        "epsilon": 0.1,
        "features": 4,
        "scores": 4,
        "prediction": 1,
        "target": 1,
        "correct": True,
        "attribution_norm": 2.0,
        "strongest": {"by": "ascent", **found},
        "bounds": [
            {
                "claim": "certified",
                "status": "does not apply: a ResNet",
            },
            {
                "claim": "first_order",
                "euclidean": bound,
                "degrees": degrees,
                "status": "converged",
                "source": "theorem 1",
                "products": 20,
                "seconds": 0.5,
                "exceeded": attack > bound,
                "degrees_exceeded": turned > degrees,
            },
        ],
        "attacks": [
            {
                "attack": "ascent",
                **found,
                "seconds": 1.0,
                "repeats": [{"deviation": attack}, {"deviation": 0.0}],
            }
        ],
    }
    return {**made, **more}


def failing(sample, **more) -> dict:
    known = ("batch", "label", "attribution", "ball", "epsilon", "features")
    made = row(sample, 1.0, 1.0)
    kept = {key: made[key] for key in known}
    return {"sample": sample, **kept, "error": "boom", "bounds": [], "attacks": [], **more}


def summary(*rows):
    (found,) = summarise(table(rows, SCHEMA))
    return found


def test_means_slack_and_exceeded_by_hand() -> None:
    found = summary(row(0, 1.0, 2.0), row(1, 3.0, 2.0), row(2, 2.0, 8.0, correct=False))
    claim = found.claims["first_order"]
    assert (found.n, found.errors, found.misclassified) == (3, 0, 1)
    assert found.attribution_norm == 2.0
    assert claim.mean == pytest.approx(4.0)
    assert claim.slack == pytest.approx((2 + 2 / 3 + 4) / 3)
    assert claim.worst == pytest.approx(1.5)
    assert (claim.exceeded.count, claim.exceeded.n) == (1, 3)
    assert (claim.exceeded_degrees.count, claim.exceeded_degrees.n) == (0, 3)
    assert claim.statuses == {"converged": 3}
    assert (claim.products, claim.seconds) == (20, 1.5)
    assert found.best.mean == pytest.approx(2.0)
    assert found.best.worst == 3.0
    assert found.attacks["ascent"].mean_of_means == pytest.approx(1.0)
    assert found.attacks["ascent"].seconds == 3.0
    assert (found.best.kendall, found.best.topk) == (0.5, 0.75)
    assert found.best.labels_kept == 1.0
    assert (found.best.mean_of_means, found.best.seconds) == (None, None)


def test_angles_are_exceeded_on_their_own() -> None:
    found = summary(row(0, 1.0, 2.0, attack_degrees=11.0), row(1, 1.0, 2.0))
    claim = found.claims["first_order"]
    assert claim.exceeded.count == 0
    assert (claim.exceeded_degrees.count, claim.exceeded_degrees.n) == (1, 2)


def test_failed_samples_are_counted_and_change_no_number() -> None:
    rows = [row(0, 1.0, 2.0), row(1, 3.0, 2.0)]
    clean, dirty = summary(*rows), summary(*rows, failing(2), failing(3))
    assert (dirty.n, dirty.errors) == (4, 2)
    assert dirty.claims == clean.claims
    assert dirty.best == clean.best
    assert dirty.attacks == clean.attacks


def test_open_angles_count_as_the_worst_of_the_same_samples() -> None:
    """A median over those that are limited would make a claim that says less look better."""
    rows = [row(i, 1.0, 2.0, bound_degrees=float(i)) for i in range(3)]
    found = summary(*rows, row(3, 1.0, 2.0, bound_degrees=180.0, attack_degrees=180.0))
    claim = found.claims["first_order"]
    assert (found.open, claim.open) == (1, 1)
    assert (claim.degrees, claim.worst_degrees, claim.largest) == (1.5, 180.0, 2.0)
    assert (found.best.degrees, found.best.worst_degrees) == (5.0, 180.0)
    nothing = summary(row(0, 1.0, 2.0, bound_degrees=180.0)).claims["first_order"]
    assert (nothing.degrees, nothing.open) == (180.0, 1)


def test_a_sample_without_a_bound_is_open() -> None:
    less = row(1, 1.0, 2.0)
    less["bounds"] = less["bounds"][:1]
    claim = summary(row(0, 1.0, 2.0), less).claims["first_order"]
    assert (claim.n, claim.open, claim.worst_degrees) == (1, 1, 180.0)
    assert claim.degrees == (10.0 + 180.0) / 2


def test_a_claim_that_never_applied_has_no_numbers_but_its_reason() -> None:
    claim = summary(row(0, 1.0, 2.0)).claims["certified"]
    assert (claim.n, claim.mean, claim.slack, claim.exceeded) == (0, None, None, None)
    assert claim.statuses == {"does not apply: a ResNet": 1}


def test_claims_come_with_the_weakest_promise_first() -> None:
    assert list(summary(row(0, 1.0, 2.0)).claims) == ["first_order", "certified"]


def test_attributions_that_neither_move_nor_may_move_are_no_division_by_zero() -> None:
    claim = summary(row(0, 0.0, 0.0), row(1, 1.0, 0.0)).claims["first_order"]
    assert claim.slack == 0.0
    assert claim.worst == math.inf


def test_without_attacks_nothing_is_compared() -> None:
    (first, bound) = row(0, 1.0, 2.0)["bounds"]
    bound |= {"exceeded": None, "degrees_exceeded": None}
    found = summary(row(0, 1.0, 2.0, attacks=[], strongest=None, bounds=[first, bound]))
    assert (found.best, found.attacks) == (None, {})
    claim = found.claims["first_order"]
    assert (claim.mean, claim.exceeded, claim.slack, claim.worst) == (2.0, None, None, None)


def test_only_failed_samples_leave_an_empty_summary() -> None:
    found = summary(failing(0))
    assert (found.n, found.errors, found.best) == (1, 1, None)
    assert (found.claims, found.attacks) == ({}, {})
    assert found.attribution_norm is None


def test_one_record_per_attribution_ball_and_epsilon_in_order() -> None:
    kinds = [("saliency", "l2", 0.1), ("ig", "linf", 0.01), ("ig", "l2", 0.5), ("ig", "l2", 0.1)]
    rows = [
        row(i, 1.0, 2.0, attribution=name, ball=ball, epsilon=epsilon)
        for name, ball, epsilon in kinds
        for i in range(2)
    ]
    found = summarise(table(rows, SCHEMA))
    assert [(s.attribution, s.ball, s.epsilon) for s in found] == sorted(kinds)
    assert all(each.n == 2 for each in found)
    assert totals(found)["first_order"] == ExceededShare.of(0, 8)
    assert totals(found)["certified"] is None
    assert summarise(SCHEMA.empty_table()) == []


def test_totals_add_up() -> None:
    rows = [
        row(i, attack, 2.0, epsilon=eps) for eps in (0.1, 0.2) for i, attack in enumerate((1, 3))
    ]
    assert totals(summarise(table(rows, SCHEMA)))["first_order"] == ExceededShare.of(2, 4)


def copied(sample, on_copy, on_yours, bound, subject="copy") -> dict:
    """A row of an audit with a smooth copy."""
    made = row(sample, on_copy, bound)
    yours = {**made["strongest"], "by": "kinks", "deviation": on_yours, "degrees": 7.0}
    own = on_copy if subject == "copy" else on_yours
    bounds = made["bounds"]
    bounds[1] |= {
        "subject": subject,
        "exceeded": own > bound,
        "yours_exceeded": on_yours > bound,
    }
    attack = {**made["attacks"][0], "subject": "copy"}
    kinks = {**attack, "attack": "kinks", "subject": "yours", "deviation": on_yours}
    fidelity = {"label": sample != 1, "degrees": 2.0 + sample, "ball_degrees": 4.0 + sample}
    return {**made, "yours": yours, "attacks": [attack, kinks], "fidelity": fidelity}


def test_with_a_copy_both_networks_have_their_numbers() -> None:
    found = summary(
        copied(0, 1.0, 5.0, 2.0), copied(1, 3.0, 1.0, 2.0), copied(2, 1.0, 1.0, 4.0), failing(3)
    )
    claim = found.claims["first_order"]
    assert claim.subject == "copy"
    assert claim.exceeded == ExceededShare.of(1, 3)
    assert claim.yours == ExceededShare.of(1, 3)
    assert claim.either == ExceededShare.of(2, 3)  # not the same samples
    assert (claim.worst, claim.yours_worst) == (1.5, 2.5)
    assert claim.slack == pytest.approx((2 + 2 / 3 + 4) / 3)
    assert (found.best.subject, found.best.worst) == ("copy", 3.0)
    assert (found.yours.subject, found.yours.worst, found.yours.degrees) == ("yours", 5.0, 7.0)
    assert {name: each.subject for name, each in found.attacks.items()} == {
        "ascent": "copy",
        "kinks": "yours",
    }
    fidelity = found.fidelity
    assert (fidelity.n, fidelity.labels) == (3, 2)
    assert (fidelity.degrees, fidelity.worst_degrees) == (3.0, 4.0)
    assert (fidelity.ball_degrees, fidelity.worst_ball_degrees) == (5.0, 6.0)
    assert totals([found])["first_order"] == ExceededShare.of(2, 3)
    assert yours_totals([found])["first_order"] == ExceededShare.of(1, 3)
    assert found.claims["certified"].subject is None


def test_a_bound_of_the_network_is_held_against_attacks_on_it() -> None:
    found = summary(copied(0, 1.0, 5.0, 2.0, "yours"), copied(1, 9.0, 1.0, 2.0, "yours"))
    claim = found.claims["first_order"]
    assert claim.subject == "yours"
    assert claim.worst == claim.yours_worst == 2.5
    assert claim.slack == pytest.approx((2 / 5 + 2) / 2)
    assert claim.either == claim.exceeded == ExceededShare.of(1, 2)


def test_bounds_of_both_networks_under_one_claim_promise_nothing_of_yours() -> None:
    found = summary(copied(0, 1.0, 1.0, 2.0, "yours"), copied(1, 1.0, 1.0, 2.0))
    assert found.claims["first_order"].subject == "copy"


def test_without_a_copy_there_is_one_network() -> None:
    found = summary(row(0, 3.0, 2.0))
    claim = found.claims["first_order"]
    assert (found.yours, found.fidelity, claim.yours, claim.yours_worst) == (None,) * 4
    assert claim.either == claim.exceeded == ExceededShare.of(1, 1)
    assert found.best.subject == found.attacks["ascent"].subject == "yours"


def test_records_are_json_with_infinity_as_text() -> None:
    found = summary(row(0, 1.0, math.inf))
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["claims"]["first_order"]["mean"] == "inf"
    assert record["claims"]["first_order"]["exceeded"]["count"] == 0
    assert record["best"]["mean"] == 1.0


@pytest.mark.parametrize(("count", "n"), [(0, 1), (0, 100), (3, 10), (10, 10), (57, 256)])
def test_wilson_against_scipy(count, n) -> None:
    truth = stats.binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert wilson(count, n) == pytest.approx((truth.low, truth.high), abs=1e-12)
    assert wilson(count, n)[0] < wilson(count, n)[1]
