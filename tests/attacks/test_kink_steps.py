"""Steps across the nearest kinks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attribound as ab
from attribound.attacks import KinkSteps, RandomPerturbation


def one_kink(bias: float) -> nn.Sequential:
    """f(x) = relu(3 x_0 + 4 x_1 + bias): the gradient jumps by 5 across one line."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        net[0].bias.fill_(bias)
    return net.eval()


@pytest.mark.parametrize("ball", [ab.L2Ball(0.1), ab.LinfBall(0.1), ab.LpBall(0.1, 1)])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_it_crosses_a_kink_that_is_within_reach(ball: ab.Ball, side: float) -> None:
    """The kink lies at 80 % of what the ball's norm reaches, and the jump is all there is."""
    x = torch.zeros(1, 2)
    reach = {2.0: 5.0, float("inf"): 7.0, 1.0: 4.0}[ball.enclosing(x).p]
    net = one_kink(side * 0.8 * 0.1 * reach)
    found = KinkSteps(4)(ab.Saliency(net), x, ball, 0)
    assert found.deviation.item() == pytest.approx(5.0)
    assert ball.contains(found.delta, x).all()
    assert KinkSteps(4)(ab.Saliency(one_kink(side * 1.3 * 0.1 * reach)), x, ball, 0).deviation == 0


def test_kinks_beyond_the_ball_are_no_reason_to_fail() -> None:
    net = nn.Sequential(nn.Linear(2, 3)).eval()
    found = KinkSteps()(ab.Saliency(net), torch.rand(2, 2), ab.L2Ball(0.1))
    assert (found.deviation == 0).all()


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(6, 80), nn.ReLU(), nn.Linear(80, 80), nn.LeakyReLU(), nn.Linear(80, 3))
    return nn.Sequential(*layers).eval()


def test_it_beats_noise_of_more_evaluations() -> None:
    x = torch.rand(8, 6, generator=torch.Generator().manual_seed(1))
    saliency = ab.Saliency(network())
    ball = ab.L2Ball(0.1)
    noise = RandomPerturbation().repeat(64)(saliency, x, ball).deviation
    found = KinkSteps(32)(saliency, x, ball)
    assert found.deviation.mean() > 1.05 * noise.mean()
    assert found.subject == "your network"


def test_more_kinks_never_find_less_on_average() -> None:
    x = torch.rand(8, 6, generator=torch.Generator().manual_seed(1))
    saliency = ab.Saliency(network())
    few, many = (KinkSteps(n)(saliency, x, ab.L2Ball(0.1)).deviation.mean() for n in (2, 64))
    assert many >= few


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), p=st.sampled_from([1.0, 2.0, 4.0, float("inf")]))
def test_it_stays_in_the_ball_and_in_the_range(seed: int, p: float) -> None:
    x = torch.rand(3, 6, generator=torch.Generator().manual_seed(seed))
    scale = torch.ones(6)
    scale[seed % 6] = 0
    ball = ab.LpBall(0.1, p, low=0, high=1, scale=scale)
    found = KinkSteps(8)(ab.InputXGradient(network(seed)), x, ball)
    assert ball.contains(found.delta, x, 1e-5).all()
    assert ((x + found.delta >= 0) & (x + found.delta <= 1)).all()
    assert (found.delta[:, seed % 6] == 0).all()


def test_examples_do_not_see_each_other() -> None:
    x = torch.rand(3, 6, generator=torch.Generator().manual_seed(5))
    saliency, ball = ab.Saliency(network()), ab.L2Ball(0.1)
    whole = KinkSteps(8)(saliency, x, ball)
    alone = KinkSteps(8)(saliency, x[1:2], ball)
    torch.testing.assert_close(whole.deviation[1:2], alone.deviation)


def test_refusals() -> None:
    with pytest.raises(ab.InputError, match="kinks: expected 1 or more"):
        KinkSteps(0)
    bare = ab.FunctionAttribution(lambda z, t: z)
    with pytest.raises(ab.InputError, match="whose kinks are looked for"):
        KinkSteps()(bare, torch.rand(1, 2), ab.L2Ball(0.1), 0)
    assert KinkSteps().seeded(4).seed == 4
