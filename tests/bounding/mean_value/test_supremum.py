from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.attacks.objectives import Problem
from attribound.bounding.mean_value.secants import secants
from attribound.bounding.mean_value.supremum import Climb


class Separable(nn.Module):
    """f = sum of x_i^4 / 12 + k x_i^3 / 6: the Jacobian of the saliency is diag(x_i^2 + k x_i)."""

    def __init__(self, bend: float = 0.5) -> None:
        super().__init__()
        self.bend = bend

    def forward(self, x: Tensor) -> Tensor:
        score = (x**4 / 12 + self.bend * x**3 / 6).sum(1)
        return torch.stack([score + 5, 0 * score], 1)

    def steepness(self, x: Tensor) -> Tensor:
        return x**2 + self.bend * x


X = torch.tensor([[0.4, 0.9, 0.2], [0.3, 0.5, 1.0]], dtype=torch.float64)


def climb(attribution: ab.Attribution, x: Tensor, ball: ab.LpBall, radius: float) -> Climb:
    target = attribution.targets(x)
    problem = Problem(attribution, x, target, attribution(x, target))
    return Climb(problem, ball, ball.at_radius(radius), ab.FirstOrder())


def test_finds_the_corner_of_the_cube() -> None:
    """There every x_i is as large as can be: sqrt of the sum of squares, times epsilon."""
    model, ball = Separable(), ab.LinfBall(0.2)
    found = climb(ab.Saliency(model), X, ball, 0.1)(torch.zeros_like(X), 3)
    truth = 0.2 * model.steepness(X + 0.1).norm(dim=1)
    torch.testing.assert_close(found.value, truth, rtol=1e-5, atol=0)


def test_finds_the_point_of_the_l2_ball() -> None:
    """The steepest coordinate gets all of the radius."""
    model, ball = Separable(), ab.L2Ball(0.2)
    found = climb(ab.Saliency(model), X, ball, 0.1)(torch.zeros_like(X), 3)
    truth = 0.2 * model.steepness(X.amax(1) + 0.1)
    torch.testing.assert_close(found.value, truth, rtol=1e-4, atol=0)


@pytest.mark.parametrize("ball", [ab.L2Ball(0.3), ab.LinfBall(0.1), ab.LpBall(0.2, 3)], ids=repr)
def test_more_rounds_never_lower_it(ball) -> None:
    model, x = cases.tabular()
    search = climb(ab.IntegratedGradients(model, 3), x, ball, ball.epsilon / 2)
    start = ball.at_radius(ball.epsilon / 2).maximiser(torch.ones_like(x), x)
    values = [search(start, rounds).value for rounds in range(5)]
    for fewer, more in pairwise(values):
        assert (more >= fewer).all()
    assert (values[-1] > values[0]).any()


@pytest.mark.parametrize("kind", [ab.Saliency, ab.InputXGradient, ab.IntegratedGradients])
def test_slope_is_the_third_derivative(kind) -> None:
    """Against autograd through a dense Jacobian."""
    model, x = cases.tabular()
    attribution = kind(model)
    search = climb(attribution, x, ab.L2Ball(1e-2), 1e-2)
    torch.manual_seed(0)
    worst = 1e-2 * torch.nn.functional.normalize(torch.randn_like(x))
    target = attribution.targets(x)
    here = attribution.linearize(x, target)
    slope = search._slope(torch.zeros_like(x), here.jacobian, worst)
    pushed = torch.nn.functional.normalize(here.jacobian.matvec(worst))

    def pushed_at(row: int, point: Tensor) -> Tensor:
        moved = attribution.linearize(point.unsqueeze(0), target[row : row + 1]).jacobian
        return moved.matvec(worst[row : row + 1])[0] @ pushed[row]

    h = 1e-4
    for row in range(len(x)):
        steps = h * torch.eye(x.shape[1]).double()
        numeric = torch.stack(
            [(pushed_at(row, x[row] + e) - pushed_at(row, x[row] - e)) / (2 * h) for e in steps]
        )
        assert torch.cosine_similarity(slope[row], numeric, dim=0) > 0.999


def test_a_search_that_stands_still_is_caught(monkeypatch) -> None:
    """The closed forms above see whether the ascent works at all."""
    monkeypatch.setattr("attribound.bounding.mean_value.supremum._STEP", 1e-9)
    with pytest.raises(AssertionError):
        test_finds_the_corner_of_the_cube()
    with pytest.raises(AssertionError):
        test_finds_the_point_of_the_l2_ball()


def test_products_are_counted() -> None:
    search = climb(ab.Saliency(Separable()), X, ab.L2Ball(0.2), 0.1)
    none, two = (search(torch.zeros_like(X), rounds).products for rounds in (0, 2))
    assert (none > 0).all()
    assert (two > none + 2 * 4).all()
    assert math.isfinite(two.double().sum())


def problem() -> Problem:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    target = attribution.targets(x)
    return Problem(attribution, x, target, attribution(x, target))


def not_below(floors: torch.Tensor, deviation: torch.Tensor) -> None:
    assert (floors.mean(0) >= deviation * (1 - 1e-12)).all()


@pytest.mark.parametrize("shells", [1, 3, 4])
def test_their_mean_is_at_least_the_deviation(shells) -> None:
    """So that a bound made of them cannot lie below the attack."""
    given = problem()
    torch.manual_seed(0)
    delta = torch.randn_like(given.x)
    deviation = (given.attribution(given.x + delta, given.target) - given.clean).norm(dim=1)
    floors = secants(given, delta, shells)
    assert floors.shape == (shells, len(given.x))
    not_below(floors, deviation)
    with pytest.raises(AssertionError):  # chords that are not scaled to the whole way
        not_below(floors / 1.001 if shells == 1 else floors / shells, deviation)


def test_are_below_the_norms_on_the_way() -> None:
    """Mean value inequality: a chord is at most the steepest point of its segment."""
    given = problem()
    torch.manual_seed(1)
    delta = 0.3 * torch.randn_like(given.x)
    floors = secants(given, delta, 4)
    for k in range(4):
        steepest = torch.zeros(len(given.x)).double()
        for t in torch.linspace(k / 4, (k + 1) / 4, 41).tolist():
            jacobian = given.attribution.linearize(given.x + t * delta, given.target).jacobian
            steepest = torch.maximum(steepest, jacobian.matvec(delta).norm(dim=1))
        assert (floors[k] <= steepest * (1 + 1e-4)).all()
