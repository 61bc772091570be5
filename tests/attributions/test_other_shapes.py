"""Attributions whose maps have another shape than the input, through everything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import attribound as ab
import cases
import laws
from attribound.attacks import IFIA, PGD, AttributionAscent, MassCentre, Targeted, TopK
from attribound.basics.tensors import norm
from attribound.values import from_spec, to_spec

MODEL, X = cases.image()
TARGET = MODEL(X).argmax(1)


@dataclass(frozen=True)
class ChannelSum(ab.AutogradAttribution):
    """The gradient times the input, summed over channels: ``(batch, height, width)``."""

    power: int = 1

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        gradient = self.classifier.gradient(x, target, create_graph=True)
        return ((x * gradient) ** self.power).sum(1)


def channel_sum(x: Tensor, target: Tensor) -> Tensor:
    return (x * cases.gradient(MODEL, x, target)).sum(1)


def wider(x: Tensor, target: Tensor) -> Tensor:
    """More scores than features: ``(batch, 2, 2, 6, 6)``."""
    gradient = cases.gradient(MODEL, x, target)
    return torch.stack([gradient, x * gradient], 1)


ATTRIBUTIONS = {
    "class": lambda: ChannelSum(MODEL),
    "function": lambda: ab.FunctionAttribution(channel_sum, MODEL),
    "wider": lambda: ab.FunctionAttribution(wider, MODEL),
}


@pytest.fixture(params=ATTRIBUTIONS.values(), ids=ATTRIBUTIONS)
def attribution(request) -> ab.Attribution:
    return request.param()


def slow(attribution: ab.Attribution, x: Tensor) -> Tensor:
    return (wider if attribution.name == "wider" else channel_sum)(x, TARGET)


def matrix(attribution: ab.Attribution) -> Tensor:
    return cases.dense_jacobian(lambda z: slow(attribution, z), X)


def test_values_and_jacobians(attribution) -> None:
    linear = attribution.linearize(X)
    torch.testing.assert_close(linear.value, slow(attribution, X).detach(), **laws.TIGHT)
    assert linear.jacobian.domain.shape == X.shape
    assert linear.jacobian.range.shape == linear.value.shape != X.shape
    laws.equals_dense(linear.jacobian, matrix(attribution))
    for law in laws.OPERATOR_LAWS:
        law(linear.jacobian)


def test_l2_bounds_against_the_dense_jacobian(attribution) -> None:
    method = ab.FirstOrder(ab.SpectralSolver(1e-8))
    bound = ab.bound(attribution, X, ab.L2Ball(0.05), method=method)
    truth = torch.linalg.svdvals(matrix(attribution))[:, 0]
    torch.testing.assert_close(bound.euclidean, 0.05 * truth, rtol=1e-6, atol=0)
    torch.testing.assert_close(bound.attribution_norm, norm(slow(attribution, X).detach()))
    assert bound.direction.shape == X.shape
    sine = bound.euclidean / bound.attribution_norm
    expected = torch.where(sine < 1, torch.rad2deg(sine.clamp(max=1).asin()), 180.0)
    torch.testing.assert_close(bound.degrees, expected)


@pytest.mark.parametrize("p", [1.0, 3.0, math.inf])
def test_other_bounds_against_the_dense_jacobian(attribution, p) -> None:
    whole = matrix(attribution)
    bound = ab.bound(attribution, X, ab.LpBall(0.05, p)).euclidean / 0.05
    if p == 1:
        torch.testing.assert_close(bound, whole.norm(dim=1).amax(1))
        return
    draws = ab.LpBall(1.0, p).sample_sphere(X, 0).flatten(1)
    for _ in range(20):  # ascent, straight from Hoelder
        slope = torch.einsum("bij,bik,bk->bj", whole, whole, draws)
        draws = ab.LpBall(1.0, p).maximiser(slope, slope)
    found = norm(torch.einsum("bij,bj->bi", whole, draws))
    laws.never_below(bound, found)
    assert (bound <= 1.35 * found).all()
    if p == math.inf:
        paper = ab.bound(attribution, X, ab.LinfBall(0.05), method=ab.FirstOrder(norm=None))
        theorem_2 = (whole.mT @ whole).abs().sum((1, 2)).sqrt()
        torch.testing.assert_close(paper.values["theorem 2"], 0.05 * theorem_2)


@pytest.mark.parametrize("ball", [ab.L2Ball(0.2), ab.LinfBall(0.05)], ids=repr)
def test_mean_value_bounds_hold(attribution, ball) -> None:
    method = ab.MeanValue(shells=2, rounds=1, attack=AttributionAscent(steps=2))
    both = ab.bounds(attribution, X, ball, claims=["first_order", method])
    first, searched = both["first_order"], both["mean_value"]
    laws.never_below(searched.euclidean, first.euclidean)
    found = AttributionAscent(steps=6, random_starts=1, seed=3)(attribution, X, ball)
    laws.attack_below(found, searched)
    assert not ab.validate(searched, found).exceeded.any()


def test_attacks_find_what_they_say(attribution) -> None:
    for attack in (AttributionAscent(steps=3), PGD(steps=3), IFIA(TopK(5), steps=3)):
        ball = ab.LinfBall(0.1)
        found = attack(attribution, X, ball)
        laws.inside(found.delta, ball)
        change = slow(attribution, X + found.delta) - slow(attribution, X)
        torch.testing.assert_close(found.deviation, norm(change.detach()))


def test_ascent_attains_the_bound_in_small_balls(attribution) -> None:
    ball = ab.L2Ball(1e-4)
    bound = ab.bound(attribution, X, ball)
    found = AttributionAscent(steps=30)(attribution, X, ball)
    torch.testing.assert_close(found.deviation, bound.euclidean, rtol=0.02, atol=0)


def test_measures_of_maps_without_channels() -> None:
    region = torch.zeros(6, 6, dtype=torch.bool)
    region[2:4, 2:4] = True
    attribution = ChannelSum(MODEL)
    clean = attribution(X, TARGET)
    for objective in (TopK(), MassCentre(), Targeted(region)):
        found = IFIA(objective, steps=10)(attribution, X, ab.LinfBall(0.2))
        after = attribution(X + found.delta, TARGET)
        assert (objective.score(after, clean) > objective.score(clean, clean)).all()
    with pytest.raises(
        ab.InputError, match=r"region: expected a mask .*\(6, 6\), got shape \(2, 6"
    ):
        IFIA(Targeted(torch.ones(2, 6, 6)), steps=1)(attribution, X, ab.LinfBall(0.2))


def test_the_remainder(attribution) -> None:
    delta = 1e-3 * torch.randn(X.shape, generator=torch.Generator().manual_seed(0)).double()
    found = ab.eta(attribution, X, delta)
    change = (slow(attribution, X + delta) - slow(attribution, X)).detach().flatten(1)
    linear = torch.einsum("bij,bj->bi", matrix(attribution), delta.flatten(1))
    torch.testing.assert_close(found.eta, (change - linear).norm(dim=1), rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(found.deviation, change.norm(dim=1))
    assert (found.relative < 0.05).all()


def test_the_largest_radius(attribution) -> None:
    for ball in (ab.L2Ball(1), ab.LinfBall(1)):
        largest = ab.max_epsilon(attribution, X, ball, degrees=20)
        for row, epsilon in enumerate(largest.epsilon.tolist()):
            bound = ab.bound(attribution, X[row : row + 1], ball.at_radius(epsilon))
            assert bound.degrees.item() == pytest.approx(20, rel=1e-6)


def test_calibration(tmp_path) -> None:
    x = torch.rand(9, 2, 6, 6, generator=torch.Generator().manual_seed(0)).double()
    attack = AttributionAscent(steps=1)
    attribution, ball = ChannelSum(MODEL), ab.L2Ball(0.1)
    settings = ab.SplitConformal(attack, alpha=0.1)
    found = ab.calibrate(attribution, x, ball, method=settings)
    base = ab.bound(attribution, x, ball)
    ratios = attack(attribution, x, ball).deviation / base.euclidean
    assert found.factor == pytest.approx(ratios.max().item())
    found.save(tmp_path / "it.json")
    again = ab.Calibration.load(tmp_path / "it.json")
    bound = ab.bound(attribution, x, ball, method=again)
    torch.testing.assert_close(bound.euclidean, found.factor * base.euclidean)
    with pytest.raises(
        ab.InputError, match=r"attribution: expected .*'power': 1.*got .*'power': 2"
    ):
        ab.bound(ChannelSum(MODEL, power=2), x, ball, method=again)


def test_memory_limits_change_nothing() -> None:
    ball = ab.LinfBall(0.05)
    whole = ab.bound(ChannelSum(MODEL), X, ball)
    grouped = ab.bound(ChannelSum(ab.Classifier(MODEL, memory_limit=1)), X, ball)
    torch.testing.assert_close(grouped.euclidean, whole.euclidean)
    torch.testing.assert_close(grouped.direction, whole.direction)


def test_a_certificate_is_refused() -> None:
    with pytest.raises(ab.ModelError, match="attribution: expected Saliency"):
        ab.bound(ChannelSum(MODEL), X, ab.L2Ball(0.1), claim="certified")


def test_recipes_are_values() -> None:
    recipe = ChannelSum(power=2)
    assert to_spec(recipe) == {"kind": f"{__name__}:ChannelSum", "power": 2}
    assert from_spec(to_spec(recipe), ab.Attribution) == recipe != ChannelSum()
    torch.testing.assert_close(recipe.of(MODEL)(X), ChannelSum(MODEL, power=2)(X))
    with pytest.raises(ab.InputError, match="expected one of a model, got a recipe"):
        recipe(X)
