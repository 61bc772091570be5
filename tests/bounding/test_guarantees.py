from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
import cases
import laws

BALL = ab.L2Ball(0.1)
QUICK = ab.MeanValue(shells=1, rounds=0, attack=ab.attacks.AttributionAscent(steps=2))


def calibrated(attribution, x, **settings) -> ab.Calibration:
    method = ab.SplitConformal(attack=ab.attacks.AttributionAscent(steps=2), alpha=0.5, **settings)
    return ab.calibrate(attribution, x, BALL, method=method)


def test_first_order_is_the_default() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    assert ab.bound(attribution, x, BALL).claim is ab.Claim.FIRST_ORDER


@pytest.mark.parametrize("claim", ["first_order", "mean_value", "calibrated", "certified"])
def test_every_claim_has_the_same_fields(claim) -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    calibration = calibrated(attribution, x) if claim == "calibrated" else None
    bound = ab.bound(attribution, x, BALL, claim=claim, calibration=calibration)
    assert bound.claim is ab.Claim.named(claim)
    assert str(bound.claim) in repr(bound)
    assert len(bound) == len(bound.source) == len(x)
    for name in ("euclidean", "adjusted", "cosine", "degrees", "relative", "c"):
        assert getattr(bound, name).shape == (len(x),)
        assert not getattr(bound, name).isnan().any()
    assert bound.claims["euclidean"] is bound.claim


def test_several_at_once_equal_one_by_one() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    calibration = calibrated(attribution, x)
    together = ab.bounds(
        attribution,
        x,
        BALL,
        claims=["certified", "calibrated", "mean_value", "first_order"],
        methods={"mean_value": QUICK},
        calibration=calibration,
    )
    assert list(together) == ["certified", "calibrated", "mean_value", "first_order"]
    for claim, bound in together.items():
        alone = ab.bound(
            attribution,
            x,
            BALL,
            claim=claim,
            method=QUICK if claim == "mean_value" else None,
            calibration=calibration if claim == "calibrated" else None,
        )
        torch.testing.assert_close(bound.euclidean, alone.euclidean)
    order = [together[claim].euclidean for claim in ("first_order", "mean_value", "certified")]
    assert (order[0] <= order[1]).all()
    laws.never_below(order[2], order[0])


def test_work_is_shared(monkeypatch) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    calls = []
    linearize = ab.Saliency.linearize
    monkeypatch.setattr(ab.Saliency, "linearize", lambda *args: calls.append(1) or linearize(*args))
    ab.bounds(attribution, x, BALL, methods={"mean_value": QUICK})
    assert len(calls) == 1  # first-order once, and the mean-value bound rests on it


def test_the_claim_follows_the_method() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    assert ab.bound(attribution, x, BALL, method=QUICK).claim is ab.Claim.MEAN_VALUE
    assert ab.bound(attribution, x, BALL, method=ab.FirstOrder()).claim is ab.Claim.FIRST_ORDER


def test_a_calibrated_bound_scales_its_base() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    for base in (ab.FirstOrder(), QUICK):
        calibration = calibrated(attribution, x, base=base)
        plain = ab.bound(attribution, x, BALL, method=base)
        bound = ab.bound(
            attribution, x, BALL, claim="calibrated", calibration=calibration, method=base
        )
        torch.testing.assert_close(bound.euclidean, calibration.factor * plain.euclidean)
        assert bound.source == (f"{calibration.factor:.4g} x {plain.claim}",) * len(x)


def test_the_base_of_a_calibrated_bound_is_not_shown_attacks() -> None:
    """They were not shown to it when it was calibrated either."""
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    calibration = calibrated(attribution, x, base=QUICK)
    found = ab.attacks.AttributionAscent(steps=9, random_starts=3)(attribution, x, BALL)
    claims = ["mean_value", "calibrated"]
    told, blind = (
        ab.bounds(
            attribution,
            x,
            BALL,
            claims=claims,
            methods={"mean_value": QUICK},
            calibration=calibration,
            attacked=attacked,
        )
        for attacked in ([found], [])
    )
    torch.testing.assert_close(told["calibrated"].euclidean, blind["calibrated"].euclidean)
    assert (told["mean_value"].euclidean >= blind["mean_value"].euclidean).all()


def test_a_calibration_for_something_else_is_refused() -> None:
    model, x = cases.tabular()
    calibration = calibrated(ab.Saliency(model), x)
    other = nn.Sequential(nn.Linear(7, 3), nn.Softplus(), nn.Linear(3, 3)).double().eval()
    cases_ = [
        (ab.Saliency(other), BALL, None, "model: expected sha256"),
        (ab.InputXGradient(model), BALL, None, "attribution: expected Saliency"),
        (ab.Saliency(model), ab.L2Ball(0.2), None, "ball: expected"),
        (ab.Saliency(model), BALL, ab.FirstOrder(dense=False), "base bound: expected"),
    ]
    for attribution, ball, method, message in cases_:
        with pytest.raises(ab.InputError, match=message):
            ab.bound(
                attribution, x, ball, method=method, claim="calibrated", calibration=calibration
            )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"claim": "true"}, "claim: expected one of first_order, adjusted"),
        ({"claim": "attained"}, "claim: expected .*attained ones come from attacks"),
        ({"claim": "calibrated"}, "a calibration exactly if .*got none for calibrated"),
        ({"claim": "certified", "method": QUICK}, "expected Certified for the claim certified"),
        ({"claim": "mean_value", "method": ab.FirstOrder()}, "expected MeanValue for"),
        ({"method": "fast"}, "expected FirstOrder for the claim first_order, got str"),
    ],
)
def test_refuses_what_does_not_go_together(arguments, message) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    with pytest.raises(ab.InputError, match=message):
        ab.bound(attribution, x, BALL, **arguments)


def test_refuses_no_claim_and_a_needless_calibration() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    with pytest.raises(ab.InputError, match="claims: expected at least one claim"):
        ab.bounds(attribution, x, BALL, claims=[])
    with pytest.raises(ab.InputError, match="got one for first_order"):
        ab.bound(attribution, x, BALL, calibration=calibrated(attribution, x))


def test_a_first_order_bound_that_is_there_is_not_computed_again(monkeypatch) -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    first = ab.bound(attribution, x, BALL)
    claims = ["first_order", "mean_value"]
    anew = ab.bounds(attribution, x, BALL, claims=claims, methods={"mean_value": QUICK})
    monkeypatch.setattr("attribound.bounding.guarantees.first_order", None)
    given = ab.bounds(
        attribution, x, BALL, claims=claims, methods={"mean_value": QUICK}, first=first
    )
    assert given["first_order"] is first
    assert given.seconds["first_order"] == 0
    torch.testing.assert_close(given["mean_value"].euclidean, anew["mean_value"].euclidean)


def test_a_first_order_bound_of_something_else_is_refused() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    first = ab.bound(attribution, x, BALL)
    for ball, rows, bound in [
        (ab.L2Ball(0.2), x, first),
        (ab.LinfBall(0.1), x, first),
        (BALL, x[:2], first),
        (BALL, x, ab.bound(attribution, x, BALL, method=QUICK)),
    ]:
        with pytest.raises(ab.InputError, match="first: expected the first-order bound of these"):
            ab.bounds(attribution, rows, ball, first=bound)
