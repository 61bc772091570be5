from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import attribound as ab
import cases
from attribound.attacks import (
    PGD,
    AttributionAscent,
    BestOf,
    Interrupted,
    OnlyIn,
    RandomPerturbation,
    Repeated,
    judge,
)
from attribound.attacks.judging import furthest

BALL = ab.L2Ball(0.2)


def test_who_climbs_slopes_says_so() -> None:
    """Of combinations it is one of their attacks that decides."""
    climbing = AttributionAscent()
    for attack in (
        climbing,
        climbing.repeat(2),
        OnlyIn(climbing, ("l2",)),
        BestOf(PGD(), climbing),
    ):
        assert attack.needs_slopes
    for attack in (PGD(), RandomPerturbation(), PGD().repeat(2), climbing.through(20)):
        assert not attack.needs_slopes


def test_repeat_keeps_the_furthest_and_every_trial() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    found = RandomPerturbation().repeat(5)(attribution, x, BALL)
    singles = [RandomPerturbation(seed)(attribution, x, BALL) for seed in range(5)]
    deviations = torch.stack([single.deviation for single in singles])
    torch.testing.assert_close(found.deviation, deviations.amax(0))
    assert len(found.trials) == 5
    winner = deviations.argmax(0)
    for row, trial in enumerate(winner.tolist()):
        assert torch.equal(found.delta[row], singles[trial].delta[row])
        assert found.degrees[row] == singles[trial].degrees[row]
    assert "best of 5 trials" in repr(found)


def test_of_trials_that_move_it_equally_far_the_first_is_kept() -> None:
    model, x = cases.tabular()
    found = RandomPerturbation()(ab.Saliency(model), x, BALL)
    for turned, kept in ((0.0, 1.0), (1e-3, -1.0)):
        other = replace(found, delta=-found.delta, deviation=found.deviation + turned)
        assert torch.equal(furthest([found, other]).delta, kept * found.delta)


@pytest.mark.parametrize("missing", ["label_kept", "attacked_map"])
def test_what_one_trial_does_not_know_is_not_known_of_the_furthest(missing) -> None:
    model, x = cases.tabular()
    found = RandomPerturbation()(ab.Saliency(model), x, BALL)
    blind = replace(found, **{missing: None})
    for trials in ([found, blind], [blind, found], [blind, blind]):
        assert getattr(furthest(trials), missing) is None
    assert getattr(furthest([found, found]), missing) is not None


def test_repeats_of_a_random_start_differ() -> None:
    model, x = cases.tabular()
    trials = PGD(steps=2).repeat(3)(ab.Saliency(model), x, BALL).trials
    assert not torch.equal(trials[0].delta, trials[1].delta)


def test_best_of_combines_and_flattens() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    found = BestOf(PGD(), AttributionAscent(), RandomPerturbation().repeat(2))(attribution, x, BALL)
    assert len(found.trials) == 4
    assert found.evaluations == sum(trial.evaluations for trial in found.trials)
    assert (found.deviation >= AttributionAscent()(attribution, x, BALL).deviation).all()
    seeded = BestOf(PGD(), RandomPerturbation()).seeded(5)
    assert [attack.seed for attack in seeded.attacks] == [5, 5]


def test_combinations_are_values() -> None:
    assert PGD().repeat(3) == Repeated(PGD(), 3) != PGD().repeat(4)
    assert BestOf(PGD(), AttributionAscent()) == BestOf(attacks=[PGD(), AttributionAscent()])
    assert BestOf(PGD()) != BestOf(PGD(), PGD())
    assert PGD(seed=2).repeat(3).seeded(5) == PGD(seed=7).repeat(3)
    assert OnlyIn(PGD(), ("l2",)).seeded(5) == OnlyIn(PGD(seed=5), ("l2",))
    assert len({PGD().repeat(3), PGD().repeat(3), BestOf(PGD())}) == 2


def test_an_attack_for_some_balls_says_so_and_is_made_wherever_it_is_called() -> None:
    model, x = cases.tabular()
    attribution, attack = ab.Saliency(model), OnlyIn(PGD(steps=2), ("l2", "linf scaled"))
    for ball, applies in [
        (ab.L2Ball(0.1), True),
        (ab.LinfBall(0.1), False),
        (ab.LinfBall(0.1, scale=2.0), True),
    ]:
        assert attack.applies(ball) is attack.repeat(2).applies(ball) is applies
        assert PGD().applies(ball)
        same = PGD(steps=2)(attribution, x, ball)
        assert torch.equal(attack(attribution, x, ball).delta, same.delta)


def test_no_attacks_and_no_repeats_are_refused() -> None:
    with pytest.raises(ab.InputError, match="BestOf: expected at least one attack"):
        BestOf()
    with pytest.raises(ab.InputError, match="times: expected a whole number, 1 or more"):
        PGD().repeat(0)


def test_examples_misclassified_at_the_start_are_reported() -> None:
    model, x = cases.tabular()
    wrong = model(x).argmax(1)
    wrong[1] = (wrong[1] + 1) % 3
    found = PGD(steps=2)(ab.Saliency(model), x, BALL, target=wrong)
    assert found.misclassified.tolist() == [False, True, False, False, False]
    assert len(found) == 5


def test_misclassified_is_said_of_the_clean_input_whatever_became_of_it() -> None:
    """Of labels that the attack turned, as of those that nobody predicts."""
    model, x = cases.tabular()
    attribution, prediction = ab.Saliency(model), model(x).argmax(1)
    found = PGD(steps=20)(attribution, x, ab.L2Ball(3.0))
    turned = model(x + found.delta).argmax(1)
    assert torch.equal(found.label_kept, turned == prediction)
    assert not found.label_kept.all()
    assert not found.misclassified.any()
    other = judge(attribution, x, found.delta, turned)
    assert torch.equal(other.misclassified, turned != prediction)


def test_a_perturbation_found_on_the_copy_is_scored_on_the_original() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).double().eval()
    x = torch.rand(4, 6).double()
    found = AttributionAscent()(ab.Saliency(ab.smooth(net, 20)), x, BALL)
    scored = judge(ab.Saliency(net), x, found.delta)
    target = net(x).argmax(1)
    change = cases.gradient(net, x + found.delta, target) - cases.gradient(net, x, target)
    torch.testing.assert_close(scored.deviation, change.detach().norm(dim=1))


def test_an_interrupt_hands_over_what_was_found() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    calls = [-math.inf]

    def interrupt(*_: object) -> None:
        calls[0] += 1
        if calls[0] == 60:
            raise KeyboardInterrupt

    handle = model.register_forward_hook(interrupt)
    attribution.linearize(x)  # what has a hook is probed again
    calls[0] = 0
    with pytest.raises(Interrupted, match="has the best perturbations so far") as stop:
        AttributionAscent(steps=50, step=ab.attacks.Ascend()).repeat(3)(attribution, x, BALL)
    handle.remove()
    assert (stop.value.found.deviation > 0).all()
    assert all(p.requires_grad for p in model.parameters())
    assert isinstance(stop.value, KeyboardInterrupt)


def test_an_interrupt_between_groups_leaves_the_rest_untouched() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(ab.Classifier(model, memory_limit=1))
    calls = [-math.inf]

    def interrupt(*_: object) -> None:
        calls[0] += 1
        if calls[0] == 40:
            raise KeyboardInterrupt

    handle = model.register_forward_hook(interrupt)
    attribution.linearize(x)  # what has a hook is probed again
    calls[0] = 0
    with pytest.raises(Interrupted) as stop:
        AttributionAscent(steps=10, step=ab.attacks.Ascend())(attribution, x, BALL)
    handle.remove()
    moved = stop.value.found.deviation > 0
    assert moved[0]
    assert not moved[-1]


def test_cosine_and_angle_are_those_of_both_maps() -> None:
    model, x = cases.tabular()
    attribution, delta = ab.Saliency(model), 0.3 * torch.randn(3, *x.shape, dtype=x.dtype)
    for each in delta:
        found = judge(attribution, x, each)
        one, other = (attribution(at, found.target).flatten(1) for at in (x, x + each))
        cosine = torch.nn.functional.cosine_similarity(one, other)
        torch.testing.assert_close(found.cosine, 1 - cosine)
        torch.testing.assert_close(found.degrees, torch.rad2deg(torch.acos(cosine)))
        torch.testing.assert_close(found.attacked_map.flatten(1), other)
        assert found.evaluations == 0, "nobody said that it cost anything"


def test_angles_of_zero_attributions_are_180() -> None:
    attribution = ab.FunctionAttribution(lambda x, target: 0 * x)
    found = judge(attribution, torch.ones(1, 2), torch.ones(1, 2), 0)
    assert (found.cosine.item(), found.degrees.item()) == (2, 180)
    assert found.label_kept is found.misclassified is None


@pytest.mark.parametrize("delta", [torch.zeros(5, 6), torch.zeros(1, 7), 0.1, None])
def test_perturbations_of_another_shape_are_not_judged(delta) -> None:
    model, x = cases.tabular()
    with pytest.raises(ab.InputError, match=r"delta: expected perturbations of shape \(5, 7\)"):
        judge(ab.Saliency(model), x, delta)
