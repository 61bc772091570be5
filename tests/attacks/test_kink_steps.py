"""Steps across the nearest kinks, and climbs from those that matter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attribound as ab
from attribound.attacks import AttributionAscent, KinkJumps, KinkSteps, RandomPerturbation
from attribound.attacks.kink_jumps import towards_kinks
from attribound.attacks.objectives import Problem


def one_kink(bias: float) -> nn.Sequential:
    """f(x) = relu(3 x_0 + 4 x_1 + bias): the gradient jumps by 5 across one line."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        net[0].bias.fill_(bias)
    return net.eval()


@pytest.mark.parametrize("ball", [ab.L2Ball(0.1), ab.LinfBall(0.1), ab.LpBall(0.1, 1)])
@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("attack", [KinkSteps(4), KinkJumps(4)])
def test_it_crosses_a_kink_that_is_within_reach(
    ball: ab.Ball, side: float, attack: ab.Attack
) -> None:
    """The kink lies at 80 % of what the ball's norm reaches, and the jump is all there is."""
    x = torch.zeros(1, 2)
    reach = {2.0: 5.0, float("inf"): 7.0, 1.0: 4.0}[ball.enclosing(x).p]
    net = one_kink(side * 0.8 * 0.1 * reach)
    found = attack(ab.Saliency(net), x, ball, 0)
    assert found.deviation.item() == pytest.approx(5.0)
    assert ball.contains(found.delta, x).all()
    beyond = one_kink(side * 1.3 * 0.1 * reach)
    assert attack(ab.Saliency(beyond), x, ball, 0).deviation == 0


@pytest.mark.parametrize("attack", [KinkSteps(4), KinkJumps(4)])
def test_a_neuron_that_nothing_moves_is_in_nobodys_way(attack: ab.Attack) -> None:
    """Fed by a dead neuron alone it has an argument, but no slope."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([-0.4, -5.0]))
        net[2].weight.copy_(torch.eye(2))
        net[2].bias.copy_(torch.tensor([1.0, 0.5]))
        net[4].weight.fill_(1.0)
    found = attack(ab.Saliency(net.eval()), torch.zeros(1, 2), ab.L2Ball(0.1), 0)
    assert found.deviation.item() == pytest.approx(5.0)


@pytest.mark.parametrize("attack", [KinkSteps(), KinkJumps()])
def test_networks_without_kinks_are_no_reason_to_fail(attack: ab.Attack) -> None:
    net = nn.Sequential(nn.Linear(2, 3)).eval()
    found = attack(ab.Saliency(net), torch.rand(2, 2), ab.L2Ball(0.1))
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
@given(
    seed=st.integers(0, 1000),
    p=st.sampled_from([1.0, 2.0, 4.0, float("inf")]),
    attack=st.sampled_from([KinkSteps(8), KinkJumps(4)]),
)
def test_it_stays_in_the_ball_and_in_the_range(seed: int, p: float, attack: ab.Attack) -> None:
    x = torch.rand(3, 6, generator=torch.Generator().manual_seed(seed))
    scale = torch.ones(6)
    scale[seed % 6] = 0
    ball = ab.LpBall(0.1, p, low=0, high=1, scale=scale)
    found = attack(ab.InputXGradient(network(seed)), x, ball)
    assert ball.contains(found.delta, x, 1e-5).all()
    assert ((x + found.delta >= 0) & (x + found.delta <= 1)).all()
    assert (found.delta[:, seed % 6] == 0).all()


def test_the_largest_jump_in_reach_is_first() -> None:
    """Three neurons: near with a small jump, in reach with the largest, out of reach."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.01, -0.05, 5.0]))
        net[2].weight.copy_(torch.tensor([[0.1, 2.0, 100.0]]))
    x, label = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    saliency = ab.Saliency(net.eval())
    problem = Problem(saliency, x, label, saliency(x, label))
    first, second = towards_kinks(saliency.classifier, problem, ab.L2Ball(0.1), 2)
    torch.testing.assert_close(first.slope, torch.tensor([[0.0, 1.0]]))
    torch.testing.assert_close(first.distance, torch.tensor([0.05]))
    torch.testing.assert_close(second.slope, torch.tensor([[-1.0, 0.0]]))
    # Both together: the gradient moves by (-0.1, 2).
    found = KinkJumps(2)(saliency, x, ab.L2Ball(0.1), 0)
    assert found.deviation.item() == pytest.approx((0.1**2 + 2**2) ** 0.5)


def test_climbs_from_kinks_find_what_others_miss() -> None:
    """A neuron that is off at x and just beyond: its term joins the integral at once."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double().eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-0.3, 3.0]]))
        net[0].bias.copy_(torch.tensor([0.5, -0.19]))
        net[2].weight.copy_(torch.tensor([[2.0, 6.0]]))
    x = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    exact, ball = ab.IntegratedGradients(net, quadrature="exact"), ab.L2Ball(0.05)
    ascent = AttributionAscent(steps=8)(exact, x, ball, 0).deviation
    found = KinkJumps(2)(exact, x, ball, 0)
    assert found.deviation > 1.5 * ascent
    bound = ab.bound(exact, x, ball, 0, claim="certified")
    assert (found.deviation <= bound.euclidean).all()


def test_examples_do_not_see_each_other() -> None:
    x = torch.rand(3, 6, generator=torch.Generator().manual_seed(5))
    saliency, ball = ab.Saliency(network()), ab.L2Ball(0.1)
    whole = KinkSteps(8)(saliency, x, ball)
    alone = KinkSteps(8)(saliency, x[1:2], ball)
    torch.testing.assert_close(whole.deviation[1:2], alone.deviation)


def test_refusals() -> None:
    with pytest.raises(ab.InputError, match="kinks: expected 1 or more"):
        KinkSteps(0)
    with pytest.raises(ab.InputError, match="1 or more kinks and 0 or more steps"):
        KinkJumps(4, steps=-1)
    bare = ab.FunctionAttribution(lambda z, t: z)
    with pytest.raises(ab.InputError, match="whose kinks are looked for"):
        KinkSteps()(bare, torch.rand(1, 2), ab.L2Ball(0.1), 0)
    with pytest.raises(ab.InputError, match="knows its classifier"):
        KinkJumps()(bare, torch.rand(1, 2), ab.L2Ball(0.1), 0)
    assert KinkSteps().seeded(4).seed == KinkJumps().seeded(4).seed == 4
