from __future__ import annotations

import math

import pytest
import torch
from scipy.special import ndtr
from torch import Tensor, nn

import attribound as ab
from attribound.attacks import AveragedAscent
from attribound.attacks.averaged_ascent import paired
from attribound.attributions.averaged import Averaged
from attribound.results import AVERAGED

ONE, OTHER = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8])


def halves(x: Tensor, target: Tensor) -> Tensor:
    """Two vectors, told apart by a half-space: no slopes, and a known average."""
    return torch.where(x[:, :1] > 0, ONE.to(x), OTHER.to(x))


def turned(radius: float, sigma: float) -> float:
    """How far the average at 0 turns if the first feature moves by the radius, at worst."""
    angles = []
    for sign in (-1, 1):
        share = ndtr(sign * radius / sigma)
        there, here = share * ONE + (1 - share) * OTHER, (ONE + OTHER) / 2
        angles.append(math.degrees(math.acos(float(there @ here / there.norm() / here.norm()))))
    return max(angles)


class TestWithoutSlopes:
    def test_it_finds_what_there_is(self) -> None:
        x = torch.zeros(2, 4)
        averaged = Averaged(ab.FunctionAttribution(halves), 0.25)
        attack = AveragedAscent(judging=4000)
        found = attack(averaged, x, ab.L2Ball(0.1), 0)
        assert found.subject == AVERAGED
        assert (ab.L2Ball(0.1).contains(found.delta, x)).all()
        best = turned(0.1, 0.25)
        assert (found.degrees > 0.75 * best).all()
        assert (found.degrees < 1.1 * best).all()  # judging errs both ways

    def test_noise_is_no_movement(self) -> None:
        """A perturbation that changes nothing, judged on draws that differ."""
        x, delta = torch.zeros(1, 4), torch.tensor([[0.0, 0.1, 0.0, 0.0]])
        averaged = Averaged(ab.FunctionAttribution(halves), 0.25, draws=500)
        deviation, degrees = paired(averaged, x, delta, torch.tensor([0]))
        assert deviation.item() == degrees.item() == 0
        # A map that is pure noise has no average to move; its means over draws do move.
        noise = Averaged(ab.FunctionAttribution(lambda x, t: torch.sin(1e4 * x)), 0.25, draws=500)
        away = torch.full((20, 4), 0.05) * torch.arange(1, 21)[:, None]
        here, target = torch.zeros(20, 4), torch.zeros(20, dtype=torch.long)
        honest = paired(noise, here, away, target)[0]
        naive = ab.attacks.judge(noise, here, away, target).deviation
        assert honest.mean() < 0.6 * naive.mean()

    def test_frozen_features_stay(self) -> None:
        scale = torch.tensor([0.0, 1.0, 1.0, 1.0])
        ball = ab.L2Ball(0.1, scale=scale)
        x = torch.zeros(1, 4)
        averaged = Averaged(ab.FunctionAttribution(lambda x, t: x**3 + 0.1), 0.25 * scale)
        found = AveragedAscent(judging=100, climbing=16)(averaged, x, ball, 0)
        assert found.delta[0, 0] == 0
        assert found.delta.norm() > 0.09


def test_a_network_with_kinks_is_climbed_through_its_copies() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    x = torch.rand(2, 6)
    averaged, ball = Averaged(ab.Saliency(net), 0.25), ab.L2Ball(0.1)
    found = AveragedAscent(judging=2000)(averaged, x, ball)
    random = torch.stack(
        [
            paired(averaged, x, ball.sample_sphere(x, seed), averaged.targets(x))[1]
            for seed in range(5)
        ]
    ).amax(0)
    assert (found.degrees > random).all()
    bound = ab.bound(ab.Saliency(net), x, ball, method=ab.Smoothed(draws=2000))
    assert (found.degrees < bound.degrees).all()
    other = AveragedAscent(judging=2000).seeded(5)(averaged, x, ball)
    assert (other.degrees != found.degrees).all()


def test_refusals() -> None:
    with pytest.raises(ab.InputError, match="2 draws or more"):
        AveragedAscent(judging=1)
    with pytest.raises(ab.InputError, match="expected an averaged one, got FunctionAttribution"):
        AveragedAscent()(ab.FunctionAttribution(halves), torch.zeros(1, 4), ab.L2Ball(0.1), 0)
