from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import laws
from attribound.attributions.averaged import Averaged
from attribound.results import AVERAGED


def network(activation: nn.Module) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 8), activation, nn.Linear(8, 3)).double().eval()
    return made, torch.rand(2, 5, dtype=torch.float64)


def smooth() -> tuple[Averaged, Tensor]:
    made, x = network(nn.Tanh())
    return Averaged(ab.Saliency(made), 0.3, draws=6), x


def slow(averaged: Averaged, x: Tensor, target: Tensor) -> Tensor:
    """One draw after the other, with its graph."""
    model = averaged.base.classifier.model
    every = []
    for drawn, _ in averaged.vectors(x[:1].detach(), target[:1]):
        for noise in torch.from_numpy(drawn):
            points = x + noise
            score = model(points).gather(1, target[:, None]).sum()
            (slope,) = torch.autograd.grad(score, points, create_graph=True)
            every.append(slope / slope.norm(dim=1, keepdim=True))
    return torch.stack(every).mean(0)


def test_it_is_the_mean_of_the_units_over_fixed_noise() -> None:
    averaged, x = smooth()
    target = averaged.targets(x)
    want = slow(averaged, x.clone().requires_grad_(), target).detach()
    torch.testing.assert_close(averaged(x, target), want)
    torch.testing.assert_close(averaged(x, target), averaged(x, target), rtol=0, atol=0)
    assert averaged.subject == AVERAGED


def test_its_jacobian() -> None:
    averaged, x = smooth()
    target = averaged.targets(x)
    rows = torch.autograd.functional.jacobian(lambda z: slow(averaged, z, target), x)
    truth = torch.stack([rows[i, :, i] for i in range(len(x))])
    found = averaged.linearize(x, target)
    laws.equals_dense(found.jacobian, truth)
    torch.testing.assert_close(found.value, averaged(x, target))
    laws.equals_dense(found.jacobian.select(torch.tensor([1])), truth[1:])


def test_of_another_network() -> None:
    averaged, x = smooth()
    other, _ = network(nn.ReLU())
    moved = averaged.recipe().of(other)
    assert (moved(x, 0) != averaged(x, 0)).any()
    assert averaged.recipe().of(averaged.classifier)(x, 0).equal(averaged(x, 0))


def test_sigma_of_each_feature_and_example() -> None:
    averaged, x = smooth()
    frozen = replace(averaged, sigma=torch.zeros(5))
    plain = ab.Saliency(averaged.classifier)(x, 0)
    torch.testing.assert_close(frozen(x, 0), plain / plain.norm(dim=1, keepdim=True))
    both = torch.stack([torch.zeros(5), torch.full((5,), 0.3)])
    each = replace(averaged, sigma=both)
    torch.testing.assert_close(each(x, 0)[:1], frozen(x, 0)[:1])
    torch.testing.assert_close(each(x, 0)[1:], averaged(x, 0)[1:])
    torch.testing.assert_close(each.linearize(x, 0).value, each(x, 0))


def test_refusals() -> None:
    averaged, x = smooth()
    with pytest.raises(ab.InputError, match="draws >= 1 and sigma >= 0"):
        replace(averaged, draws=0)
    with pytest.raises(ab.ModelError, match="the normaliser unit, which has slopes"):
        replace(averaged, normaliser="sign").linearize(x)
    kinked, x = network(nn.ReLU())
    with pytest.raises(ab.KinkError, match="relu"):
        Averaged(ab.Saliency(kinked)).linearize(x)
