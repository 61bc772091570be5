"""Attacks through surrogates: climbed there, judged here."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.attacks import AttributionAscent, BestOf, RandomPerturbation, Through

BALL = ab.L2Ball(0.2)


def kinked(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3))
    return nn.Sequential(*layers).eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(4, 6, generator=torch.Generator().manual_seed(1))


def test_it_is_judged_on_the_network_itself(x) -> None:
    net = kinked()
    found = AttributionAscent(steps=4).through(20)(ab.Saliency(net), x, BALL)
    assert found.subject == "your network"
    again = ab.attacks.judge(ab.Saliency(net), x, found.delta)
    torch.testing.assert_close(found.deviation, again.deviation)
    # What it climbed is another map: there the same perturbation is worth something else.
    copy = ab.attacks.judge(ab.Saliency(ab.smooth(net, 20)), x, found.delta)
    assert not torch.allclose(found.deviation, copy.deviation, rtol=1e-3)


def test_it_finds_what_noise_does_not(x) -> None:
    saliency = ab.Saliency(kinked())
    noise = RandomPerturbation().repeat(20)(saliency, x, BALL).deviation
    found = AttributionAscent(random_starts=4).through(20, 50, 200)(saliency, x, BALL).deviation
    assert (found >= noise).float().mean() >= 0.75
    assert found.mean() > 1.05 * noise.mean()


def test_more_copies_never_find_less(x) -> None:
    saliency = ab.Saliency(kinked())
    one, three = (
        AttributionAscent(steps=4).through(*betas)(saliency, x, BALL) for betas in ((50,), (20, 50))
    )
    assert (three.deviation >= one.deviation).all()
    assert len(three.trials) == 2


def test_a_cheaper_quadrature(x) -> None:
    net = nn.Sequential(nn.Linear(6, 12), nn.Softplus(5), nn.Linear(12, 3)).eval()
    dear = ab.IntegratedGradients(net, steps=40)
    cheap = AttributionAscent().through(ab.IntegratedGradients(steps=4))(dear, x, BALL)
    direct = AttributionAscent()(dear, x, BALL)
    torch.testing.assert_close(cheap.deviation, direct.deviation, rtol=0.05, atol=0)
    assert cheap.evaluations < direct.evaluations / 5


def test_any_surrogate(x) -> None:
    net, other = kinked(), kinked(seed=3)
    found = AttributionAscent(steps=3).through(ab.Saliency(ab.smooth(other, 20)))(
        ab.Saliency(net), x, BALL
    )
    target = ab.Saliency(net).targets(x)
    climbed = AttributionAscent(steps=3)(ab.Saliency(ab.smooth(other, 20)), x, BALL, target)
    torch.testing.assert_close(found.delta, climbed.delta)


def test_repeats_of_the_attack_are_judged_one_by_one(x) -> None:
    saliency = ab.Saliency(kinked())
    inner = AttributionAscent(random_starts=1, steps=2).repeat(3)
    assert len(inner.through(20, 50)(saliency, x, BALL).trials) == 6


def test_a_copy_is_attacked_through_copies_of_its_original(x) -> None:
    net = kinked()
    copy = ab.smooth(net, 5)
    (own,) = Through(AttributionAscent(), (50.0,)).surrogates(ab.Saliency(copy))
    assert own.classifier is not None
    with torch.no_grad():
        torch.testing.assert_close(own.classifier.logits(x), ab.smooth(net, 50)(x))


def test_copies_are_differentiated_as_the_network_was_asked_to(x) -> None:
    """Each choice has copies of its own, whichever was asked for first."""
    net, through = kinked(), AttributionAscent(steps=2).through(20)
    for structured, limit in ((False, 2**20), (True, 2**30), (False, 2**30)):
        asked = ab.Classifier(net, memory_limit=limit, structured=structured)
        (surrogate,) = through.surrogates(ab.Saliency(asked))
        copy = surrogate.classifier
        assert (copy.structured, copy.memory_limit) == (structured, limit)
        assert copy.is_structured(x) is structured
        (again,) = through.surrogates(ab.Saliency(asked))
        assert again.classifier is copy


def test_copies_follow_the_weights_and_go_with_the_network(x) -> None:
    net = kinked()
    attack = Through(AttributionAscent(), (20.0,))
    (first,) = attack.surrogates(ab.Saliency(net))
    (second,) = attack.surrogates(ab.Saliency(net))
    assert first.classifier is second.classifier
    with torch.no_grad():
        net[0].weight.mul_(2)
        torch.testing.assert_close(first.classifier.logits(x), ab.smooth(net, 20)(x))
    gone = weakref.ref(net)
    del net, first, second
    gc.collect()
    assert gone() is None


def test_values() -> None:
    attack = AttributionAscent().through(20, 50, ab.IntegratedGradients(steps=3))
    assert ab.from_spec(ab.to_spec(attack), ab.attacks.Attack) == attack
    assert ab.to_text(attack).startswith("through:attack=ascent,betas=(20.0,50.0)")
    assert attack.seeded(3).attack.seed == 3
    assert attack.applies(BALL)


def test_refusals(x) -> None:
    with pytest.raises(ab.InputError, match="through: expected a surrogate"):
        Through(AttributionAscent())
    two = ab.Saliency(), ab.InputXGradient()
    with pytest.raises(ab.InputError, match="surrogates: expected at most one recipe"):
        AttributionAscent().through(*two)
    bare = ab.FunctionAttribution(lambda z, t: z)
    with pytest.raises(ab.InputError, match="expected one that knows its network"):
        AttributionAscent().through(20)(bare, x, BALL, 0)
    function = ab.Saliency(kinked().forward)
    with pytest.raises(ab.InputError, match=r"model: expected a torch.nn.Module"):
        AttributionAscent().through(20)(function, x, BALL)


def test_the_best_of_several(x) -> None:
    saliency = ab.Saliency(kinked())
    parts = AttributionAscent(steps=3).through(50), RandomPerturbation()
    both = BestOf(*parts)(saliency, x, BALL)
    each = torch.stack([part(saliency, x, BALL).deviation for part in parts])
    torch.testing.assert_close(both.deviation, each.amax(0))
