from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import attribound as ab
import cases
import laws
from attribound.bounding.calibrated import CALIBRATED
from attribound.bounding.first_order import FIRST_ORDER
from attribound.bounding.guarantees import method_of
from attribound.bounding.mean_value import MEAN_VALUE
from attribound.results import ATTAINED, claim_named
from attribound.values import registry

BALL = ab.L2Ball(0.1)
QUICK = ab.MeanValue(shells=1, rounds=0, attack=ab.attacks.AttributionAscent(steps=2))


def calibrated(attribution, x, **settings) -> ab.Calibration:
    method = ab.SplitConformal(attack=ab.attacks.AttributionAscent(steps=2), alpha=0.5, **settings)
    return ab.calibrate(attribution, x, BALL, method=method)


def test_first_order_is_the_default() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    assert ab.bound(attribution, x, BALL).claim is FIRST_ORDER


@pytest.mark.parametrize("claim", [c for c in ab.claims() if c.method is not None], ids=str)
def test_every_claim_has_the_same_fields(claim) -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    wanted = calibrated(attribution, x) if claim is CALIBRATED else claim.name
    bound = ab.bound(attribution, x, BALL, claim=wanted)
    assert bound.claim is claim
    assert str(bound.claim) in repr(bound)
    assert len(bound) == len(bound.source) == len(x)
    for name in ("euclidean", "adjusted", "cosine", "degrees", "relative", "c"):
        assert getattr(bound, name).shape == (len(x),)
        assert not getattr(bound, name).isnan().any()
    assert bound.claims["euclidean"] is bound.claim
    assert (bound.ball, bound.epsilon) == (BALL, 0.1)


def test_several_at_once_equal_one_by_one() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    wanted = ["certified", calibrated(attribution, x), QUICK, "adjusted", "first_order"]
    together = ab.bounds(attribution, x, BALL, claims=wanted)
    assert list(together) == ["certified", "calibrated", "mean_value", "adjusted", "first_order"]
    for each, bound in zip(wanted, together.values(), strict=True):
        alone = ab.bound(attribution, x, BALL, claim=each)
        torch.testing.assert_close(bound.euclidean, alone.euclidean)
    order = [together[claim].euclidean for claim in ("first_order", "mean_value", "certified")]
    assert (order[0] <= order[1]).all()
    laws.never_below(order[2], order[0])
    first = together["first_order"]
    torch.testing.assert_close(together["adjusted"].euclidean, first.adjusted, rtol=0, atol=0)


def linearized(monkeypatch) -> list[int]:
    calls: list[int] = []
    linearize = ab.Saliency.linearize
    monkeypatch.setattr(ab.Saliency, "linearize", lambda *args: calls.append(1) or linearize(*args))
    return calls


def test_work_is_shared(monkeypatch) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    calls = linearized(monkeypatch)
    both = ab.bounds(attribution, x, BALL, claims=["first_order", QUICK, "adjusted"])
    assert len(calls) == 1  # first-order once, and the others rest on it
    assert both.seconds.keys() == both.keys()


def test_other_effort_is_not_shared(monkeypatch) -> None:
    """A mean-value bound rests on the first-order bound of its own settings."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    calls = linearized(monkeypatch)
    rough = ab.FirstOrder(ab.SpectralSolver(0.5))
    ab.bounds(attribution, x, BALL, claims=[rough, QUICK])
    assert len(calls) == 2


def test_the_claim_follows_the_method() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    assert ab.bound(attribution, x, BALL, method=QUICK).claim is MEAN_VALUE
    assert ab.bound(attribution, x, BALL, method=ab.FirstOrder()).claim is FIRST_ORDER
    assert ab.bound(attribution, x, BALL, method=QUICK, claim="mean_value").claim is MEAN_VALUE


def test_methods_are_written_in_several_ways() -> None:
    for same in ("mean_value", "mean-value", MEAN_VALUE, ab.MeanValue(), ab.MeanValue):
        assert method_of(same) == ab.MeanValue()
    assert method_of("mean_value:shells=2,attack=none") == ab.MeanValue(shells=2, attack=None)
    assert method_of({"kind": "first_order", "dense": False}) == ab.FirstOrder(dense=False)
    one = calibrated(*cases.quadratic([2.0, 1.0]))
    assert method_of(one) == one.as_method() == ab.Calibrated(calibration=one)
    assert method_of(one).claim is CALIBRATED


def test_a_calibrated_bound_scales_its_base() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    for base in (ab.FirstOrder(), QUICK, ab.Certified()):
        calibration = calibrated(attribution, x, base=base)
        plain = ab.bound(attribution, x, BALL, method=base)
        bound = ab.bound(attribution, x, BALL, method=calibration)
        assert bound.claim is CALIBRATED
        torch.testing.assert_close(bound.euclidean, calibration.factor * plain.euclidean)
        assert bound.source == (f"{calibration.factor:.4g} x {plain.claim}",) * len(x)


def test_the_base_of_a_calibrated_bound_is_not_shown_attacks() -> None:
    """They were not shown to it when it was calibrated either."""
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    calibration = calibrated(attribution, x, base=QUICK)
    found = ab.attacks.AttributionAscent(steps=9, random_starts=3)(attribution, x, BALL)
    for claims in ([QUICK, calibration], [calibration, QUICK]):
        told, blind = (
            ab.bounds(attribution, x, BALL, claims=claims, attacked=attacked)
            for attacked in ([found], [])
        )
        torch.testing.assert_close(
            told["calibrated"].euclidean, blind["calibrated"].euclidean, rtol=0, atol=0
        )
        assert (told["mean_value"].euclidean >= blind["mean_value"].euclidean).all()
        assert (told["mean_value"].euclidean > blind["mean_value"].euclidean).any()


def test_a_calibration_for_something_else_is_refused() -> None:
    model, x = cases.tabular()
    calibration = calibrated(ab.Saliency(model), x)
    other = nn.Sequential(nn.Linear(7, 3), nn.Softplus(), nn.Linear(3, 3)).double().eval()
    for attribution, ball, message in [
        (ab.Saliency(other), BALL, "model: expected sha256"),
        (ab.InputXGradient(model), BALL, "attribution: expected .*saliency.* as calibrated, got"),
        (ab.Saliency(model), ab.L2Ball(0.2), "ball: expected"),
    ]:
        with pytest.raises(ab.InputError, match=message):
            ab.bound(attribution, x, ball, method=calibration)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"claim": "true"}, "claim: expected one of first_order, adjusted, .*got 'true'"),
        ({"claim": "attained"}, "claim: expected one of .*attained values come from attacks"),
        ({"claim": ATTAINED}, "claim: expected one of .*attained values come from attacks"),
        ({"claim": "calibrated"}, "calibration: expected one for this model, .*got none"),
        (
            {"claim": "certified", "method": QUICK},
            "method: expected a method of the claim certified, got MeanValue, of .* mean_value",
        ),
        (
            {"claim": "mean_value", "method": ab.FirstOrder()},
            "expected a method of the claim mean_value, got FirstOrder, of the claim first_order",
        ),
        ({"method": "fast"}, "claim: expected one of first_order, .*got 'fast'"),
        ({"method": "fast:steps=3"}, "Method: expected one of .*first_order, .*got 'fast'"),
        ({"method": 3}, "Method: expected a value, a text or a table of one: .*got 3"),
        (
            {"claim": "mean_value:shell=2"},
            "shell: expected only settings of mean_value: shells, .*got 'shell'",
        ),
    ],
)
def test_refuses_what_does_not_go_together(arguments, message) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    with pytest.raises(ab.InputError, match=message):
        ab.bound(attribution, x, BALL, **arguments)


def test_refuses_no_claim_and_a_claim_twice() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    with pytest.raises(ab.InputError, match="claims: expected at least one claim"):
        ab.bounds(attribution, x, BALL, claims=[])
    with pytest.raises(ab.InputError, match="each claim only once, got mean_value more than once"):
        ab.bounds(attribution, x, BALL, claims=["mean_value", "first_order", QUICK])


def test_an_answer_that_is_there_is_not_computed_again(monkeypatch) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    labels = attribution.targets(x)
    anew = ab.bound(attribution, x, BALL, method=QUICK)
    question = ab.Question(attribution, x, BALL, labels)
    first = question.bound(ab.FirstOrder())
    calls = linearized(monkeypatch)
    assert question.bound(ab.FirstOrder()) is question.by(ab.FirstOrder) is first
    torch.testing.assert_close(question.bound(QUICK).euclidean, anew.euclidean)
    assert not calls


def test_several_balls_are_prepared_at_once(monkeypatch) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    labels = attribution.targets(x)
    balls = [ab.L2Ball(0.1), ab.L2Ball(0.2), ab.LinfBall(0.1)]
    alone = [ab.bound(attribution, x, ball) for ball in balls]
    calls = linearized(monkeypatch)
    questions = [ab.Question(attribution, x, ball, labels) for ball in balls]
    ab.FirstOrder().prepare(questions)
    for question, single in zip(questions, alone, strict=True):
        made = question.bound(ab.FirstOrder())
        torch.testing.assert_close(made.euclidean, single.euclidean, rtol=0, atol=0)
        assert made.ball == question.ball
        assert question.seconds[ab.FirstOrder()] > 0
    assert len(calls) == 1


@dataclass(frozen=True)
class Doubled(ab.Method):
    """A claim of a user's own."""

    times: float = 2.0

    def bound(self, question: ab.Question) -> ab.Bound:
        first = question.by(ab.FirstOrder)
        value = self.times * first.euclidean
        return ab.restate(first, value, self.claim, first.source, first.products)


@dataclass(frozen=True)
class Nameless(ab.Method):
    def bound(self, question: ab.Question) -> ab.Bound:
        return question.by(ab.FirstOrder)


@pytest.fixture
def doubled(monkeypatch):
    """The claim, taken out again afterwards."""
    results = sys.modules["attribound.results.claims"]  # its package has a function of that name
    for place, name in [(results, "_claims"), (registry, "_named"), (registry, "_names")]:
        monkeypatch.setattr(place, name, dict(getattr(place, name)))
    return ab.register_claim(
        ab.Claim("doubled", title="doubled", order=99, promise="Twice as much.", method=Doubled)
    )


def test_a_claim_of_ones_own_goes_through_everything(doubled) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    assert doubled in ab.claims()
    first = ab.bound(attribution, x, BALL)
    for claim, times in [("doubled", 2), ("doubled:times=3.0", 3), (Doubled(4.0), 4)]:
        bound = ab.bound(attribution, x, BALL, claim=claim)
        assert bound.claim is doubled
        torch.testing.assert_close(bound.euclidean, times * first.euclidean)
    both = ab.bounds(attribution, x, BALL, claims=["doubled", "mean_value"])
    assert both[doubled] is both["doubled"]
    calibration = calibrated(attribution, x, base=Doubled())
    torch.testing.assert_close(
        ab.bound(attribution, x, BALL, method=calibration).euclidean,
        calibration.factor * 2 * first.euclidean,
    )
    assert any("Doubled" in name or name == "doubled" for name in calibration.provenance.code)


def test_a_method_without_a_claim_is_refused() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    with pytest.raises(ab.InputError, match="method Nameless: expected one that belongs to a clai"):
        ab.bound(attribution, x, BALL, method=Nameless())


def test_a_name_that_another_claim_has_is_refused() -> None:
    with pytest.raises(ab.InputError, match="claim: expected a name that is free, got 'certified'"):
        ab.register_claim(ab.Claim("certified", title="mine", order=1, promise="Trust me."))
    assert claim_named("certified").title == "certified"
