from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import laws
from attribound.balls.sampling import in_ball, normal, on_sphere

BALLS = [ab.L2Ball(0.3), ab.LinfBall(0.3), ab.LpBall(0.3, 1), ab.LpBall(0.3, 3)]
X = torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("draw", [in_ball, on_sphere])
def test_draws_depend_on_seed_and_example_only(ball, draw) -> None:
    together = draw(X, ball.p, 7, ball.epsilon)
    assert torch.equal(draw(X.flip(0), ball.p, 7, ball.epsilon).flip(0), together)
    assert torch.equal(draw(X[2:3], ball.p, 7, ball.epsilon), together[2:3])
    assert not torch.equal(draw(X, ball.p, 8, ball.epsilon), together)
    assert not torch.equal(together[0], together[1])
    laws.inside(together, ball)


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_sphere_has_norm_epsilon_and_the_ball_its_volume(ball) -> None:
    """In d dimensions half of the volume lies beyond the radius 2^(-1/d)."""
    many = torch.rand(3000, 3, generator=torch.Generator().manual_seed(1)).double()
    edge = torch.linalg.vector_norm(on_sphere(many, ball.p, 0, 0.3), ball.p, dim=1)
    torch.testing.assert_close(edge, torch.full((3000,), 0.3).double())
    size = torch.linalg.vector_norm(in_ball(many, ball.p, 0, 0.3), ball.p, dim=1)
    beyond = (size > 0.3 * 2 ** (-1 / 3)).double().mean().item()
    assert abs(beyond - 0.5) < 3 * math.sqrt(0.25 / 3000)
    assert in_ball(many, ball.p, 0, 0.3).mean(0).abs().max() < 0.02


def test_normal_numbers() -> None:
    many = torch.rand(2000, 5, generator=torch.Generator().manual_seed(2)).double()
    drawn = normal(many, 0)
    assert abs(drawn.mean().item()) < 0.05
    assert abs(drawn.std().item() - 1) < 0.05
