from __future__ import annotations

import torch

import attribound as ab
import cases
from attribound.attacks import RandomPerturbation


def test_lies_on_the_sphere() -> None:
    model, x = cases.tabular()
    for ball in (ab.L2Ball(0.1), ab.LinfBall(0.1), ab.LpBall(0.1, 1)):
        delta = RandomPerturbation()(ab.Saliency(model), x, ball).delta
        size = torch.linalg.vector_norm(delta, ball.p, dim=1)
        torch.testing.assert_close(size, torch.full((5,), 0.1).double())
    assert (RandomPerturbation()(ab.Saliency(model), x, ab.LinfBall(0.1)).delta.abs() == 0.1).all()


def test_keeps_to_the_range() -> None:
    model, x = cases.tabular()
    x = x / x.max()
    found = RandomPerturbation(3)(ab.Saliency(model), x, ab.LinfBall(1, low=0, high=1))
    assert (x + found.delta).min() >= 0
    assert (x + found.delta).max() <= 1
