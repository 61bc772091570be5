from __future__ import annotations

import torch
from torch import nn

import attribound as ab
from attribound.attacks import BestOf, KinkSteps, Repeated, Through, earnest
from attribound.values import from_spec


def test_it_climbs_the_copy_and_sharper_ones_and_crosses_kinks() -> None:
    attack = earnest(20)
    assert isinstance(attack, BestOf)
    through, kinks, noise = attack.attacks
    assert isinstance(through, Through)
    assert through.betas == (20.0, 50.0, 200.0)
    assert isinstance(kinks, KinkSteps)
    assert isinstance(noise, Repeated)
    assert earnest(200).attacks[0].betas == (200.0, 50.0)
    assert from_spec(ab.to_spec(attack, whole=True), ab.attacks.Attack) == attack


def test_it_moves_a_network_with_kinks_as_far_as_each_of_its_parts() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x, ball = torch.randn(4, 6).double(), ab.L2Ball(0.3)
    saliency = ab.Saliency(net)
    found = earnest(20)(saliency, x, ball)
    for part in earnest(20).attacks:
        assert (found.deviation >= part(saliency, x, ball).deviation).all()
    assert (found.deviation > 0).any()
    assert ball.contains(found.delta, x, 1e-6).all()
