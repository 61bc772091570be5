from __future__ import annotations

import torch

import attribound as ab
import cases
from attribound.attacks import IFIA, AtInput, MassCentre, RandomPerturbation, Targeted, TopK
from attribound.metrics import top_k_intersection


def test_lowers_the_top_k_intersection_more_than_noise() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.LinfBall(0.3)
    target = model(x).argmax(1)

    def intersection(delta):
        maps = [attribution(z, target).abs() for z in (x, x + delta)]
        return top_k_intersection(*maps, 20).mean()

    found = IFIA(TopK(20), steps=50)(attribution, x, ball)
    noise = RandomPerturbation()(attribution, x, ball)
    assert intersection(found.delta) < intersection(noise.delta) - 0.1
    assert found.label_kept.all()


def test_each_objective_gains_what_it_climbs() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.LinfBall(0.2)
    target = model(x).argmax(1)
    clean = attribution(x, target)
    region = torch.zeros(2, 6, 6, dtype=torch.bool)
    region[:, 2:4, 2:4] = True
    for objective in (TopK(10), MassCentre(), Targeted(region)):
        found = IFIA(objective, steps=20)(attribution, x, ball)
        before = objective.score(clean, clean)
        after = objective.score(attribution(x + found.delta, target), clean)
        assert (after > before).all()


def test_from_the_input_it_is_the_same_every_time() -> None:
    model, x = cases.image()
    repeated = IFIA(TopK(10), steps=3, start=AtInput()).repeat(2)
    trials = repeated(ab.Saliency(model), x, ab.LinfBall(0.1)).trials
    assert torch.equal(trials[0].delta, trials[1].delta)


def test_has_the_settings_of_the_paper() -> None:
    assert (IFIA().steps, IFIA().objective) == (200, TopK())
    before, after = torch.rand(2, 1, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    for name in ("score", "measure"):
        usual, papers = (getattr(top, name)(after, before) for top in (TopK(), TopK(100)))
        torch.testing.assert_close(usual, papers, rtol=0, atol=0)
