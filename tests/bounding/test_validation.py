from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import attribound as ab
import cases
from attribound.attacks import PGD, AttributionAscent, RandomPerturbation
from attribound.bounding.validation import ROUNDINGS, evaluation_errors

BALL = ab.L2Ball(0.1)


@pytest.fixture(scope="module")
def case():
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0], batch=3)
    return attribution, x, ab.bound(attribution, x, BALL)


def test_a_bound_that_holds_is_not_exceeded(case) -> None:
    attribution, x, bound = case
    found = AttributionAscent(steps=50)(attribution, x, BALL)
    figures = ab.validate(bound, found).summary
    assert figures["exceeded"] == figures["exceeded_adjusted"] == figures["exceeded_degrees"] == 0
    assert figures["worst_factor"] == pytest.approx(1, rel=1e-3)
    assert figures["r_worst"] == pytest.approx(0, abs=1e-6)


def test_a_bound_ten_percent_too_small_is_reported_exceeded(case) -> None:
    attribution, x, bound = case
    wrong = replace(bound, euclidean=0.9 * bound.euclidean, adjusted=0.9 * bound.adjusted)
    checked = ab.validate(wrong, AttributionAscent()(attribution, x, BALL))
    assert checked.summary["exceeded"] == checked.summary["exceeded_adjusted"] == 1
    assert checked.summary["worst_factor"] == pytest.approx(1 / 0.9, rel=1e-3)
    assert checked.summary["r_worst"] < 0
    assert repr(checked).count("exceeded\n") + repr(checked).endswith("exceeded") == 3
    assert "T_e exceeded for 100.0% of examples" in repr(checked)


def test_means_and_maxima_over_trials(case) -> None:
    attribution, x, bound = case
    repeated = RandomPerturbation().repeat(4)(attribution, x, BALL)
    ascent = AttributionAscent()(attribution, x, BALL)
    checked = ab.validate(bound, repeated, ascent)
    every = torch.stack([t.deviation for t in (*repeated.trials, ascent)])
    torch.testing.assert_close(checked.mean_deviation, every.mean(0))
    torch.testing.assert_close(checked.max_deviation, ascent.deviation)
    torch.testing.assert_close(checked.gap, bound.euclidean - every.mean(0))
    angles = torch.stack([t.degrees for t in (*repeated.trials, ascent)])
    assert torch.equal(checked.max_degrees, angles.max(0).values)
    torch.testing.assert_close(checked.mean_degrees, angles.mean(0))
    assert (checked.max_degrees > angles.min(0).values).all()
    assert checked.summary["trials"] == 5
    assert checked.summary["r"] == pytest.approx((bound.euclidean - every.mean(0)).min().item())


def test_shares_are_per_example_and_per_trial(case) -> None:
    attribution, x, bound = case
    half = replace(bound, euclidean=bound.euclidean * torch.tensor([0.5, 1.0, 1.0]).double())
    found = AttributionAscent()(attribution, x, BALL)
    still = replace(found, deviation=0 * found.deviation)
    figures = ab.validate(half, found, still).summary
    assert figures["exceeded"] == pytest.approx(1 / 3)
    assert figures["exceeded_trials"] == pytest.approx(1 / 6)
    assert figures["mean_exceeded"] == 0  # the paper's mean hides it


def test_figures_are_those_of_a_table(case) -> None:
    """Two trials, three examples: above the bound, at it, below; shares are of examples."""
    attribution, x, bound = case
    ones = torch.ones_like(bound.euclidean)
    known = replace(
        bound, euclidean=2 * ones, adjusted=ones, degrees=30 * ones, attribution_norm=0 * ones
    )
    found = AttributionAscent(steps=1)(attribution, x, BALL)
    rows = {
        "deviation": ([4.0, 2.0, 1.0], [0.0, 2.0, 0.5]),
        "degrees": ([60.0, 30.0, 45.0], [10.0, 29.0, 50.0]),
    }
    trials = [
        replace(found, **{name: torch.tensor(both[i]).double() for name, both in rows.items()})
        for i in range(2)
    ]
    kept = ([True, False, True], [True, True, False])
    trials = [
        replace(trial, label_kept=torch.tensor(own))
        for trial, own in zip(trials, kept, strict=True)
    ]
    checked = ab.validate(known, *trials)
    figures = checked.summary
    assert figures["labels_flipped"] == 2
    eps = torch.finfo(torch.float64).eps
    assert figures["exceeded"] == pytest.approx(1 / 3)
    assert figures["exceeded_trials"] == pytest.approx(1 / 6)
    assert figures["mean_exceeded"] == 0  # 2, 2 and .75: at the bound is not beyond it
    assert figures["exceeded_adjusted"] == pytest.approx(2 / 3)
    assert figures["exceeded_trials_adjusted"] == pytest.approx(3 / 6)
    assert (
        checked.summary["exceeded_degrees"] == 0
    )  # maps of length zero have no angle that is known
    assert figures["worst_factor"] == 2
    assert (figures["r"], figures["r_adjusted"], figures["r_worst"]) == (0, -1, -2)
    assert checked.tightness.tolist() == [2, 1, 0.5]
    # The error is that of both maps, one of which may be longer by the deviation.
    longer = ab.validate(replace(known, attribution_norm=ones), *trials)
    assert (longer.evaluation_error[0] / eps / ROUNDINGS).tolist() == pytest.approx([6, 4, 3])
    assert longer.summary["exceeded_degrees"] == pytest.approx(2 / 3)
    at_once = replace(trials[0], deviation=longer.evaluation_error[0].new_tensor([1.0, 2.0, 3.0]))
    error = ab.validate(known, at_once).evaluation_error[0]
    exactly = replace(
        known, euclidean=at_once.deviation - error, adjusted=at_once.deviation - error
    )
    beyond = ab.validate(exactly, at_once)
    assert not beyond.exceeded.any()
    assert not beyond.exceeded_adjusted.any()
    assert beyond.within_error.all()


def test_within_error_is_said_of_examples_of_which_one_trial_is_and_none_is_beyond(case) -> None:
    """Three examples: one trial within it, none, one within and one beyond."""
    attribution, x, bound = case
    found = AttributionAscent(steps=1)(attribution, x, BALL)
    one = replace(bound, euclidean=torch.ones_like(bound.euclidean))
    hair = evaluation_errors(bound.attribution_norm, one.euclidean)[0] / 2
    within, below, beyond = 1 + hair, 0.5 + 0 * hair, 2 + 0 * hair
    trials = [
        replace(found, deviation=torch.stack(own).diagonal())
        for own in ((within, below, within), (below, below, beyond))
    ]
    figures = ab.validate(one, *trials)
    assert figures.summary["within_error"] == pytest.approx(1 / 3)
    assert figures.within_error.sum() == 2
    assert figures.summary["exceeded"] == pytest.approx(1 / 3)


def test_what_is_at_the_bound_is_not_beyond_it(case) -> None:
    """Neither a deviation nor, but for its error, an angle; a unit more in the last place is."""
    attribution, x, bound = case
    found = AttributionAscent(steps=1)(attribution, x, BALL)
    error = evaluation_errors(bound.attribution_norm, found.deviation)[1]
    at = replace(bound, euclidean=found.deviation, degrees=found.degrees - error)
    assert not ab.validate(at, found).within_error.any()
    assert not ab.validate(at, found).exceeded_degrees.any()
    below = replace(at, euclidean=at.euclidean * (1 - 1e-15), degrees=at.degrees * (1 - 1e-15))
    assert ab.validate(below, found).within_error.all()
    assert ab.validate(below, found).exceeded_degrees.all()


def test_flipped_labels_and_undefined_angles_are_counted() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(3.0)
    bound = ab.bound(attribution, x, ball)
    found = PGD(steps=20)(attribution, x, ball)
    figures = ab.validate(bound, found).summary
    assert figures["labels_flipped"] == (~found.label_kept).sum().item() > 0
    assert figures["undefined_angles"] == (bound.degrees == 180).sum().item() > 0
    unknown = ab.validate(bound, replace(found, label_kept=None))
    assert math.isnan(unknown.summary["labels_flipped"])


def test_refuses_what_does_not_belong_together(case) -> None:
    attribution, x, bound = case
    with pytest.raises(ab.InputError, match="attacked: expected at least one attack's result"):
        ab.validate(bound)
    with pytest.raises(ab.InputError, match="expected 3 examples, as in the bound, got 1"):
        ab.validate(bound, AttributionAscent()(attribution, x[:1], BALL))
    with pytest.raises(ab.InputError, match=r"perturbations in L2Ball\(epsilon=0\.1\), got 3 of"):
        ab.validate(bound, AttributionAscent()(attribution, x, ab.L2Ball(0.2)))
    found = AttributionAscent()(attribution, x, BALL)
    far = replace(found, delta=found.delta * torch.tensor([[1.0], [2.0], [1.0]]).double())
    with pytest.raises(ab.InputError, match="got 1 of 3 outside"):
        ab.validate(bound, far)


def test_attacks_on_another_target_are_refused(case) -> None:
    attribution, x, bound = case
    found = AttributionAscent(steps=2)(attribution, x, BALL)
    other = replace(found, target=bound.target + 1)
    with pytest.raises(ab.InputError, match=r"class that was bounded, got another target in exam"):
        ab.validate(bound, other)
    one = replace(found, target=bound.target + torch.tensor([0, 1, 0]))
    with pytest.raises(ab.InputError, match=r"got another target in examples \[1\]"):
        ab.validate(bound, one)


@pytest.mark.parametrize(
    ("beyond", "said"), [(1e-8, "within evaluation error"), (1e-3, "exceeded")]
)
def test_what_rounding_may_explain_is_not_called_exceeded(case, beyond: float, said: str) -> None:
    """In float32, a deviation above the bound by less than the maps are known to."""
    attribution, x, bound = case
    found = AttributionAscent(steps=2)(attribution, x, BALL)
    single = replace(
        bound,
        **{
            name: getattr(bound, name).float()
            for name in ("euclidean", "adjusted", "attribution_norm")
        },
    )
    length = single.attribution_norm
    above = replace(found, deviation=single.euclidean + (beyond + 1e-7) * length)
    checked = ab.validate(single, above)
    assert repr(checked).count(said) >= 3
    assert checked.exceeded.all() == (said == "exceeded")
    assert checked.within_error.all() == (said != "exceeded")
    assert checked.summary["within_error"] == (said != "exceeded")


@pytest.mark.parametrize(
    ("dtype", "margin", "exceeded"),
    [(torch.float32, 3e-7, False), (torch.float32, 1e-3, True), (torch.float64, 3e-7, True)],
)
def test_places_that_rounding_may_have_changed_contradict_nothing(dtype, margin, exceeded) -> None:
    """Two scores change places by a margin; a claim says that they can not."""
    diagonal = torch.diag(torch.tensor([1.0, 1.0, 0.1])).to(dtype)
    attribution = ab.Saliency(cases.Quadratic(torch.stack([diagonal, -diagonal])))
    x = torch.tensor([[1.0, 1.0 - margin / 2, 1.0]], dtype=dtype)
    delta = torch.tensor([[0.0, margin, 0.0]], dtype=dtype)

    def swap(*_: object) -> ab.Attacked:
        return ab.attacks.judge(attribution, x, delta)

    r = ab.reasons(attribution, x, ab.L2Ball(0.01), 1, attack=swap)
    assert r.attained.kept.tolist() == [0]
    assert not r.exceeded.any()  # nothing was said
    said = replace(r, kept=torch.ones_like(r.kept))
    assert said.exceeded.tolist() == [exceeded]
    assert said.sentence(0).endswith("left 0" if exceeded else "left 0, within evaluation error")
    assert not replace(said, attained=None).exceeded.any()


def test_of_perturbations_the_one_that_surely_left_fewest_is_told() -> None:
    """All of the list by a hair is less than one member for sure."""
    diagonal = torch.diag(torch.tensor([1.0, 1.0, 1.0, 1.0]))
    attribution = ab.Saliency(cases.Quadratic(torch.stack([diagonal, -diagonal])))
    x = torch.tensor([[1.0, 1.0, 1.0 - 2e-7, 1.0 - 2e-7]])
    hair = torch.tensor([[0.0, 0.0, 4e-7, 4e-7]])
    one = torch.tensor([[0.0, 0.0, 1e-2, 0.0]])

    def both(*_: object) -> ab.Attacked:
        trials = tuple(ab.attacks.judge(attribution, x, each) for each in (hair, one))
        return replace(trials[0], trials=trials)

    left = ab.reasons(attribution, x, ab.L2Ball(0.01), 2, attack=both).attained
    assert (left.kept.item(), left.at_most.item()) == (1, 1)
    torch.testing.assert_close(left.delta, one)


@pytest.mark.parametrize("make", [ab.models.MLP, ab.models.SmallCNN])
@pytest.mark.parametrize("recipe", [ab.Saliency(), ab.IntegratedGradients(steps=5)], ids=str)
def test_networks_need_fewer_roundings_than_are_allowed(make, recipe) -> None:
    """Maps in float32 against those of the same network and input in float64."""
    torch.manual_seed(0)
    net, x, target = make().eval(), torch.rand(4, 1, 28, 28), torch.arange(4)
    with torch.no_grad():  # the networks begin with no logits at all
        for each in net.parameters():
            each.copy_(each + 0.05 * torch.randn_like(each))
    single = recipe.of(net)(x, target).double()
    exact = recipe.of(net.double())(x.double(), target)
    length = exact.flatten(1).norm(dim=1)
    needed = (single - exact).flatten(1).norm(dim=1) / (torch.finfo(torch.float32).eps * length)
    assert needed.max() > 0.05  # it is about something
    assert needed.max() < ROUNDINGS / 2


@pytest.mark.parametrize("epsilon", [1e-7, 1e-6, 1e-5])
@pytest.mark.parametrize("ball", [ab.L2Ball, ab.LinfBall])
def test_at_tiny_radii_no_certificate_is_exceeded(ball, epsilon: float) -> None:
    """Deviations of float32 are then mostly rounding, and above what is certified."""
    model, x = cases.tabular()
    attribution = ab.Saliency(model.float())
    inside = ball(epsilon)
    bound = ab.bound(attribution, x.float(), inside, claim="certified")
    attacks = (RandomPerturbation(), AttributionAscent(steps=3, random_starts=2))
    found = [attack(attribution, x.float(), inside, bound.target) for attack in attacks]
    checked = ab.validate(bound, *found)
    assert not checked.exceeded.any()
    assert not checked.exceeded_degrees.any()
    if epsilon == 1e-7:
        assert checked.within_error.any()
        assert "within evaluation error" in repr(checked)
