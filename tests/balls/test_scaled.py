"""Balls in units of the features: equal to rescaling by hand, and what is frozen stays."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.attacks import (
    IFIA,
    PGD,
    Angle,
    Ascend,
    AtInput,
    AttributionAscent,
    BestOf,
    Displace,
    MassCentre,
    Nearby,
    RandomPerturbation,
    TopK,
)
from attribound.balls import Enclosure, check_ball, enclosure, project
from attribound.balls.sampling import on_sphere
from attribound.basics.tensors import dot, norm

ORDERS = [1.0, 1.5, 2.0, 3.0, math.inf]
SCALE = torch.tensor([0.5, 2.0, 0.0, 1.0, 0.25, 1.5, 0.0]).double()
ATTACKS = [
    PGD(steps=2),
    PGD("kl", steps=2, start=Nearby(0.1)),
    PGD("margin", steps=2, keep="best", step_size=5.0),
    IFIA(TopK(3), steps=2),
    IFIA(MassCentre(), steps=2, start=AtInput()),
    AttributionAscent(steps=1),
    AttributionAscent(Angle(), steps=1, step=Ascend(), random_starts=1),
    Displace(k=2, steps=1, random_starts=1),
    Displace(k=3, by="absolute", leaving=3, steps=1, pairs=0),
    RandomPerturbation(),
    BestOf(RandomPerturbation(), PGD(steps=1)).repeat(2),
]


class Rescaled(nn.Module):
    """The same network for inputs in other units: ``z -> model(x + scale * z)``."""

    def __init__(self, model: nn.Module, x: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.model, self.x, self.scale = model, x, scale

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.model(self.x + self.scale * z)
        return logits


def by_hand(model: nn.Module, x: Tensor, scale: Tensor) -> ab.Attribution:
    """The saliency of one example as a function of z in the plain ball, with its own scale."""

    def map_(z: Tensor, target: Tensor) -> Tensor:
        return cases.gradient(model, x + scale * z, target)

    map_.fingerprint = "by hand"  # calibrations ask what it is
    return ab.FunctionAttribution(map_, Rescaled(model, x, scale))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_first_order_bounds_equal_rescaling_by_hand(p) -> None:
    model, x = cases.tabular()
    method = ab.FirstOrder(ab.SpectralSolver(1e-9))
    scaled = ab.bound(ab.Saliency(model), x, ab.LpBall(0.1, p, scale=SCALE), method=method)
    for row in range(len(x)):
        zero = torch.zeros(1, 7).double()
        plain = by_hand(model, x[row : row + 1], SCALE)
        hand = ab.bound(plain, zero, ab.LpBall(0.1, p), method=method)
        for name in ("euclidean", "adjusted", "degrees"):
            theirs = getattr(scaled, name)[row : row + 1]
            torch.testing.assert_close(theirs, getattr(hand, name), rtol=1e-6, atol=0)
        assert scaled.source[row] == hand.source[0]
    wrong = ab.bound(ab.Saliency(model), x, ab.LpBall(0.1, p), method=method)
    assert not torch.isclose(wrong.euclidean, scaled.euclidean, rtol=0.02).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_first_order_bounds_equal_the_dense_matrix(p) -> None:
    """Closed forms: columns for p = 1, singular values for p = 2; never below attacks else."""
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.LpBall(1e-4, p, scale=SCALE)
    target = attribution.targets(x)
    matrix = cases.dense_jacobian(lambda z: cases.gradient(model, z, target), x) * SCALE
    bound = ab.bound(attribution, x, ball).euclidean / 1e-4
    if p == 1:
        torch.testing.assert_close(bound, matrix.norm(dim=1).amax(1))
    elif p == 2:
        torch.testing.assert_close(bound, torch.linalg.svdvals(matrix)[:, 0], rtol=0.011, atol=0)
    else:
        draws = ab.LpBall(1.0, p).sample_sphere(x, 0)
        assert (norm(torch.einsum("bij,bj->bi", matrix, draws)) <= bound).all()


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_mean_value_bounds_equal_rescaling_by_hand(p) -> None:
    model, x = cases.tabular()
    row = x[:1]
    method = ab.MeanValue(shells=2, rounds=2, attack=AttributionAscent(steps=3))
    scaled = ab.bound(ab.Saliency(model), row, ab.LpBall(0.2, p, scale=SCALE), method=method)
    zero = torch.zeros_like(row)
    hand = ab.bound(by_hand(model, row, SCALE), zero, ab.LpBall(0.2, p), method=method)
    torch.testing.assert_close(scaled.euclidean, hand.euclidean, rtol=1e-3, atol=0)
    found = AttributionAscent(steps=20, random_starts=4, seed=7)(
        ab.Saliency(model), row, ab.LpBall(0.2, p, scale=SCALE)
    )
    assert (found.deviation <= scaled.euclidean).all()


@pytest.mark.parametrize("p", ORDERS)
def test_certificates_hold_in_scaled_balls(p) -> None:
    model, x = cases.tabular()
    ball = ab.LpBall(0.05, p, scale=SCALE)
    proved = ab.bound(ab.Saliency(model), x, ball, claim="certified")
    found = AttributionAscent(steps=5, random_starts=2)(ab.Saliency(model), x, ball)
    assert (found.deviation <= proved.euclidean).all()


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_certificates_equal_rescaling_by_hand(p, steps) -> None:
    """Of the network with its first layer in the units; a frozen feature costs a millionth."""
    model, x = (each.double() for each in cases.tabular())
    units = SCALE.double()
    free = torch.where(units > 0, units, 1.0)
    by_units = copy.deepcopy(model)
    first = next(each for each in by_units.modules() if isinstance(each, torch.nn.Linear))
    first.weight.data *= free

    def explained(net) -> ab.Attribution:
        return ab.IntegratedGradients(net, steps=steps) if steps else ab.InputXGradient(net)

    for scale, hand in ((units, (units > 0).double()), (free, None)):
        one = ab.bound(explained(model), x, ab.LpBall(0.05, p, scale=scale), claim="certified")
        other = ab.LpBall(0.05, p, scale=hand)
        two = ab.bound(explained(by_units), x / free, other, claim="certified")
        torch.testing.assert_close(one.euclidean, two.euclidean, rtol=1e-4, atol=0)
    frozen = ab.bound(explained(model), x, ab.LpBall(0.05, p, scale=units), claim="certified")
    assert (frozen.euclidean < one.euclidean).all()


class Folded(nn.Sequential):
    """A network of layers for inputs in other units: ``z -> model(x + scale * z)``."""

    def __init__(self, model: nn.Sequential, x: Tensor, scale: Tensor) -> None:
        first = model[0]
        folded = nn.Linear(x.shape[1], first.out_features).to(x)
        folded.weight = nn.Parameter(first.weight * scale)
        folded.bias = nn.Parameter(first(x[0]))
        super().__init__(folded, *model[1:])


@pytest.mark.parametrize("activation", [nn.Softplus(5), nn.ReLU()])
@pytest.mark.parametrize("claim", ["first_order", "mean_value", "certified"])
def test_reasons_equal_rescaling_by_hand(claim, activation) -> None:
    """Gradients in other units are ``scale`` times as large, and so are their ends."""
    if claim != "certified" and isinstance(activation, nn.ReLU):
        return
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), activation, nn.Linear(8, 2)).double().eval()
    x, zero = torch.rand(1, 5).double(), torch.zeros(1, 5).double()
    scale = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.5]).double()
    for ball in (ab.L2Ball, ab.LinfBall):
        ours, hand = (
            ab.reasons(
                ab.Saliency(net), at, around, 4, torch.tensor([0]), claim=claim, attack=False
            )
            for net, at, around in (
                (model, x, ball(0.1, scale=scale)),
                (Folded(model, x, scale), zero, ball(0.1)),
            )
        )
        both = [torch.stack([each.low[0], each.high[0]], 1) for each in (ours, hand)]
        known = dict(zip(hand.features[0].tolist(), both[1], strict=True))
        compared = 0
        # Where attacks lead they lead along other ways; proofs and rows are the same.
        tolerance = 0.02 if claim == "mean_value" else 1e-5
        for place, ends in zip(ours.features[0].tolist(), both[0], strict=True):
            if place in known:
                pair = known[place] / scale[place]
                torch.testing.assert_close(ends, pair, rtol=tolerance, atol=1e-8)
                compared += 1
        assert compared >= 3


def test_calibrations_equal_rescaling_by_hand() -> None:
    """Factor and bound of samples in other units, attacked and bounded in the plain ball."""
    model, _ = cases.tabular()
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(20, 7, generator=generator).double()
    unit = SCALE.clamp_min(0.5)
    nowhere = torch.zeros(1, 7).double()
    hand = by_hand(model, nowhere, unit)
    attack = AttributionAscent(steps=2, random_starts=0)
    method = ab.SplitConformal(attack=attack)
    scaled = ab.calibrate(ab.Saliency(model), x, ab.L2Ball(0.1, scale=unit), method=method)
    plain = ab.calibrate(hand, x / unit, ab.L2Ball(0.1), method=method)
    assert scaled.factor == pytest.approx(plain.factor, rel=1e-3)
    new = torch.rand(2, 7, generator=generator).double()
    ours = ab.bound(ab.Saliency(model), new, ab.L2Ball(0.1, scale=unit), method=scaled)
    theirs = ab.bound(hand, new / unit, ab.L2Ball(0.1), method=plain)
    torch.testing.assert_close(ours.euclidean, theirs.euclidean, rtol=1e-2, atol=0)
    wrong = ab.calibrate(ab.Saliency(model), x, ab.L2Ball(0.1), method=method)
    assert wrong.factor != pytest.approx(scaled.factor, rel=1e-3)


def test_smoothed_bounds_equal_rescaling_by_hand() -> None:
    """Noise is in the units of the ball: the same draws, the same numbers."""
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    made = [
        (ab.Smoothed(0.2, draws=200), ab.L2Ball(0.1, scale=2.0)),
        (ab.Smoothed(0.4, draws=200), ab.L2Ball(0.2)),
    ]
    one, other = (ab.bound(attribution, x[:1], ball, method=method) for method, ball in made)
    torch.testing.assert_close(one.degrees, other.degrees)
    lists = [
        ab.reasons(attribution, x[:1], ball, 2, claim=method, attack=False) for method, ball in made
    ]
    torch.testing.assert_close(lists[0].low, lists[1].low)
    frozen = ab.bound(
        attribution, x[:1], ab.L2Ball(0.1, scale=SCALE), method=ab.Smoothed(0.2, draws=200)
    )
    still = shown_still(model, x[:1])
    held = ab.bound(still, x[:1], ab.L2Ball(0.1, scale=SCALE), method=ab.Smoothed(0.2, draws=200))
    torch.testing.assert_close(frozen.degrees, held.degrees)


def shown_still(model: nn.Module, x: Tensor) -> ab.Attribution:
    """The saliency of a network that is shown frozen features as they are at x."""

    def map_(z: Tensor, target: Tensor) -> Tensor:
        return cases.gradient(model, torch.where(SCALE > 0, z, x.expand_as(z)), target)

    return ab.FunctionAttribution(map_, model)


@pytest.mark.parametrize("p", ORDERS)
def test_scales_of_one_number_are_radii(p) -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    one = ab.bound(attribution, x, ab.LpBall(0.1, p, scale=2.0))
    other = ab.bound(attribution, x, ab.LpBall(0.2, p))
    torch.testing.assert_close(one.euclidean, other.euclidean, rtol=0.011, atol=0)
    wide, plain = ab.LpBall(0.1, p, scale=2.0), ab.LpBall(0.2, p)
    torch.testing.assert_close(wide.sample(x, 3), plain.sample(x, 3))
    torch.testing.assert_close(wide.project(x, x), plain.project(x, x))
    torch.testing.assert_close(wide.maximiser(x, x), plain.maximiser(x, x))


numbers = st.floats(-3, 3, width=32)


@settings(max_examples=80, deadline=None)
@given(
    p=st.sampled_from(ORDERS),
    rows=st.lists(st.lists(numbers, min_size=7, max_size=7), min_size=2, max_size=2),
    scale=st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]), min_size=7, max_size=7),
    limited=st.booleans(),
    seed=st.integers(0, 100),
)
def test_what_is_frozen_never_moves(p, rows, scale, limited, seed) -> None:
    if not any(scale):
        scale[0] = 1.0
    units = torch.tensor(scale).double()
    low, high = (0.0, 1.0) if limited else (None, None)
    ball = ab.LpBall(0.3, p, low, high, units)
    delta = torch.tensor(rows).double()
    x = torch.rand(2, 7, generator=torch.Generator().manual_seed(seed)).double()
    for moved in (
        ball.project(delta, x),
        ball.maximiser(delta, x),
        ball.steepest(delta, x),
        ball.sample(x, seed),
        ball.sample_sphere(x, seed),
        ball.clip(ball.maximiser(delta, x), x),
        *ball.limits(x),
    ):
        assert torch.isfinite(moved).all()
        assert (moved[:, units == 0] == 0).all()
    for inside in (ball.project(delta, x), ball.sample(x, seed), ball.maximiser(delta, x)):
        assert ball.contains(inside, x).all()
    best = dot(delta, ball.maximiser(delta, x))
    assert (best >= dot(delta, ball.sample(x, seed)) - 1e-9).all()


@pytest.mark.parametrize("p", ORDERS)
def test_samples_fill_what_is_not_frozen(p) -> None:
    """The border is reached, and in d free dimensions half of the volume is beyond 2^(-1/d)."""
    many = torch.rand(2000, 40, generator=torch.Generator().manual_seed(1)).double()
    scale = torch.zeros(40).double()
    scale[3:6] = torch.tensor([0.5, 2.0, 1.0])
    ball = ab.LpBall(0.3, p, scale=scale)
    free = scale > 0
    edge, inner = (
        d[:, free] / scale[free] for d in (ball.sample_sphere(many, 0), ball.sample(many, 0))
    )
    torch.testing.assert_close(norm(edge, p), torch.full((2000,), 0.3).double())
    beyond = (norm(inner, p) > 0.3 * 2 ** (-1 / 3)).double().mean().item()
    assert abs(beyond - 0.5) < 4 * math.sqrt(0.25 / 2000)


def test_the_test_would_see_a_feature_that_moves() -> None:
    """The broken variant: units that were forgotten."""
    x = torch.rand(2, 7).double()
    moved = ab.LpBall(0.3, 2).project(torch.ones_like(x), x)
    assert (moved[:, SCALE == 0] != 0).all()
    assert not ab.LpBall(0.3, 2, scale=SCALE).contains(moved, x).any()


@settings(max_examples=40, deadline=None)
@given(
    attack=st.sampled_from(ATTACKS),
    p=st.sampled_from(ORDERS),
    epsilon=st.floats(1e-3, 2.0),
    limited=st.booleans(),
    seed=st.integers(0, 100),
)
def test_no_attack_moves_what_is_frozen(attack, p, epsilon, limited, seed) -> None:
    model, x = cases.tabular()
    x = x / x.max()
    low, high = (0.0, 1.0) if limited else (None, None)
    ball = ab.LpBall(epsilon, p, low, high, SCALE)
    found = attack.seeded(seed)(ab.Saliency(model), x, ball)
    assert (found.delta[:, SCALE == 0] == 0).all()
    assert ball.contains(found.delta, x, 1e-6).all()
    if limited:
        assert (x + found.delta).min() >= -1e-9
        assert (x + found.delta).max() <= 1 + 1e-9


def test_attacks_equal_rescaling_by_hand() -> None:
    model, x = cases.tabular()
    row = x[:1]
    attack = AttributionAscent(steps=5)
    scaled = attack(ab.Saliency(model), row, ab.L2Ball(0.2, scale=SCALE))
    hand = attack(by_hand(model, row, SCALE), torch.zeros_like(row), ab.L2Ball(0.2))
    # The starts are those of Jacobians in other units: only where they lead to is the same.
    torch.testing.assert_close(scaled.deviation, hand.deviation, rtol=1e-2, atol=0)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_units_per_example_equal_single_calls(p) -> None:
    model, x = cases.image()
    generator = torch.Generator().manual_seed(0)
    scale = torch.rand(3, 2, 6, 6, generator=generator).double()
    scale[:, :, 0] = 0
    low, high = x - 0.3 * scale - 0.01, x + 0.2 + scale
    attribution = ab.IntegratedGradients(model, 2)
    whole_ball = ab.LpBall(0.1, p, low, high, scale)
    methods = [ab.FirstOrder(), ab.MeanValue(shells=1, rounds=1, attack=AttributionAscent(steps=1))]
    whole = ab.bounds(attribution, x, whole_ball, claims=methods)
    small = ab.IntegratedGradients(ab.Classifier(model, memory_limit=1), 2)
    grouped = ab.bounds(small, x, whole_ball, claims=methods)
    singles = [
        ab.bounds(
            attribution,
            x[i : i + 1],
            ab.LpBall(0.1, p, low[i], high[i], scale[i]),
            claims=methods,
        )
        for i in range(3)
    ]
    for claim, bound in whole.items():
        assert bound.ball == grouped[claim].ball == whole_ball
        together = torch.cat([single[claim].euclidean for single in singles])
        torch.testing.assert_close(bound.euclidean, together, rtol=1e-6, atol=0)
        torch.testing.assert_close(bound.euclidean, grouped[claim].euclidean, rtol=1e-6, atol=0)
    attack = AttributionAscent(steps=2)
    found = attack(attribution, x, whole_ball)
    alone = attack(attribution, x[1:2], whole_ball.rows(x, slice(1, 2)))
    torch.testing.assert_close(found.delta[1:2], alone.delta, rtol=1e-5, atol=1e-9)
    assert not ab.validate(whole["mean_value"], found).exceeded.any()


def test_rows_cut_what_is_per_example_only() -> None:
    x = torch.rand(3, 4).double()
    shared = ab.L2Ball(0.1, scale=torch.rand(4).double() + 0.1)
    assert shared.rows(x, slice(0, 1)) is shared
    each = ab.L2Ball(0.1, low=x - 1, scale=torch.rand(3, 4).double() + 0.1)
    cut = each.rows(x, torch.tensor([2, 0]))
    assert torch.equal(cut.scale, each.scale[[2, 0]])
    assert torch.equal(cut.low, x[[2, 0]] - 1)


@pytest.mark.parametrize("p", ORDERS)
def test_limits_per_feature(p) -> None:
    x = torch.full((2, 3), 0.5).double()
    low = torch.tensor([0.45, -math.inf, 0.0]).double()
    high = torch.tensor([math.inf, 0.52, 1.0]).double()
    ball = ab.LpBall(0.3, p, low=low, high=high)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        delta = ball.project(torch.randn(2, 3, generator=generator).double(), x)
        assert ((x + delta >= low - 1e-12) & (x + delta <= high + 1e-12)).all()
        assert ball.contains(delta, x).all()
    least, most = ball.limits(x)
    torch.testing.assert_close(least[0], torch.tensor([-0.05, -0.3, -0.3]).double())
    torch.testing.assert_close(most[0], torch.tensor([0.3, 0.02, 0.3]).double())
    with pytest.raises(ab.InputError, match="x: expected values from -inf to inf, the range of"):
        ball.check_inside(x + 0.1)


def test_a_range_per_feature_tightens_the_cube() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    low, high = x.amin(0), x.amax(0)
    ranged, free = ab.LinfBall(0.3, low=low, high=high), ab.LinfBall(0.3)
    inside, whole = (ab.bound(attribution, x, ball).euclidean for ball in (ranged, free))
    assert (inside <= whole).all()
    assert (inside < whole * 0.999).any()
    each = ab.LinfBall(0.3, low=low.expand_as(x), high=high.expand_as(x))
    same = ab.bound(attribution, x, each).euclidean
    torch.testing.assert_close(inside, same, rtol=0, atol=0)


def test_a_range_and_units_together_are_those_of_the_box() -> None:
    """Against all corners of the box that is left."""
    model, x = cases.tabular()
    x = x.clamp(0, 1)
    ball = ab.LinfBall(0.5, low=0, high=1, scale=SCALE)
    attribution = ab.Saliency(model)
    bound = ab.bound(attribution, x, ball)
    target = attribution.targets(x)
    matrix = cases.dense_jacobian(lambda z: cases.gradient(model, z, target), x)
    low, high = ball.limits(x)
    assert (low[:, SCALE == 0] == 0).all()
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 7).double()
    for row in range(len(x)):
        every = low[row] + corners * (high - low)[row]
        truth = (every @ matrix[row].T).norm(dim=1).max()
        assert truth * (1 - 1e-9) <= bound.euclidean[row] <= truth * 1.3


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("scale", [None, 2.0, SCALE])
def test_contains_and_enclosing_agree(p, scale) -> None:
    ball = ab.LpBall(0.3, p, scale=scale)
    x = torch.rand(50, 7, generator=torch.Generator().manual_seed(0)).double()
    around = enclosure(ball, x)
    assert (around.p, around.epsilon) == (p, 0.3)
    plain = on_sphere(x, p, 1, free=None if around.scale is None else around.scale > 0)
    border = around.carried(around.epsilon * plain)
    assert ball.contains(border, x).all()
    assert ball.contains(ball.sample(x, 2), x).all()
    assert not ball.contains(1.01 * border, x).any()
    torch.testing.assert_close(ball.project(1.01 * border, x), border, rtol=0, atol=0.02)


def test_the_radius_of_others_can_be_asked_for_any_shape() -> None:
    model, x = cases.tabular()
    largest = ab.max_epsilon(ab.Saliency(model), x, ab.L2Ball(5, scale=SCALE), euclidean=0.1)
    for row, epsilon in enumerate(largest.epsilon.tolist()):
        ball = ab.L2Ball(epsilon, scale=SCALE)
        found = ab.bound(ab.Saliency(model), x[row : row + 1], ball)
        assert found.euclidean.item() == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (torch.tensor([1.0, -1.0]), "scale: expected finite numbers of 0 or more, not all of them"),
        (torch.zeros(2), "not all of them 0, got from 0 to 0"),
        (torch.tensor([1.0, math.nan]), "scale: expected finite numbers"),
        (math.inf, "scale: expected finite numbers"),
        (0, "not all of them 0"),
        ("wide", "scale: expected a number"),
    ],
)
def test_refuses_units_that_make_no_ball(scale, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        ab.L2Ball(0.1, scale=scale)


def test_refuses_units_of_another_shape() -> None:
    model, x = cases.tabular()
    with pytest.raises(ab.InputError, match=r"scale: expected a number or shape \(7,\) or \(5, 7"):
        ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1, scale=torch.ones(6)))


def test_refuses_a_range_that_is_none_for_a_feature() -> None:
    with pytest.raises(ab.InputError, match="range: expected low below high"):
        ab.LinfBall(0.1, low=torch.tensor([0.0, 1.0]), high=torch.tensor([1.0, 1.0]))


def test_units_are_part_of_the_value() -> None:
    one, same, other = (ab.L2Ball(0.1, scale=torch.tensor([1.0, s])) for s in (0.5, 0.5, 0.25))
    assert one == same != other
    assert len({one, same, other}) == 2
    assert one != ab.L2Ball(0.1)
    assert ab.L2Ball(0.1, scale=1) == ab.L2Ball(0.1)
    assert repr(one) == "L2Ball(epsilon=0.1, scale=tensor of shape (2,))"
    assert (one.name, ab.L2Ball(0.1).name) == ("l2 scaled", "l2")


def test_ranged_and_at_radius_keep_the_rest() -> None:
    ball = ab.LinfBall(0.1, scale=SCALE)
    ranged = ball.ranged(0, 1)
    assert (ranged.low, ranged.high, ranged.epsilon) == (0, 1, 0.1)
    assert torch.equal(ranged.scale, SCALE)
    assert ranged.ranged(-5, 5) is ranged
    assert ab.L2Ball(0.1).ranged(0, 1) == ab.L2Ball(0.1)
    assert ranged.at_radius(0.5) == ab.LinfBall(0.5, 0, 1, SCALE)
    assert (ball.limited, ranged.limited) == (False, True)


# Balls of a user's own.


@dataclass(frozen=True)
class Half(ab.Ball):
    """Perturbations of l2 norm at most epsilon that only raise features."""

    epsilon: float
    honest: bool = True

    def project(self, delta: Tensor, x: Tensor) -> Tensor:
        return project(delta.clamp_min(0), self.epsilon * (1 if self.honest else 2), 2)

    def maximiser(self, slope: Tensor, x: Tensor) -> Tensor:
        return ab.L2Ball(self.epsilon).maximiser(slope.clamp_min(0), x)

    def contains(self, delta: Tensor, x: Tensor, tolerance: float = 1e-6) -> Tensor:
        low = (delta >= -tolerance * self.epsilon).flatten(1).all(1)
        return low & (norm(delta) <= self.epsilon * (1 + tolerance))

    def at_radius(self, epsilon: float) -> Half:
        return Half(epsilon, self.honest)

    def enclosing(self, x: Tensor) -> Enclosure:
        return Enclosure(2, self.epsilon)


@dataclass(frozen=True)
class Thawed(Half):
    """Says that the first feature can't move, and moves it."""

    def enclosing(self, x: Tensor) -> Enclosure:
        scale = torch.ones_like(x)
        scale[:, 0] = 0
        return Enclosure(2, self.epsilon, scale)


@dataclass(frozen=True)
class Homeless(Half):
    """Knows of no p-ball around it."""

    def enclosing(self, x: Tensor) -> Enclosure:
        return ab.Ball.enclosing(self, x)


def test_a_ball_of_ones_own_goes_through_bounds_and_attacks() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), Half(0.1)
    both = ab.bounds(attribution, x, ball)
    plain = ab.bound(attribution, x, ab.L2Ball(0.1))
    torch.testing.assert_close(both["first_order"].euclidean, plain.euclidean)
    for attack in (PGD(steps=3), AttributionAscent(steps=3, random_starts=1), RandomPerturbation()):
        found = attack(attribution, x, ball)
        assert ball.contains(found.delta, x).all()
        assert (found.deviation <= both["mean_value"].euclidean).all()
    assert both["first_order"].ball is ball
    assert ball.name == "Half"
    assert "Half ball of radius 0.1" in repr(both["first_order"])
    least, most = ball.limits(x)
    assert (least == -0.1).all()
    assert (most == 0.1).all()


@pytest.mark.parametrize("ball", [Half(0.1, honest=False), Thawed(0.1)], ids=repr)
def test_a_ball_that_leaves_what_it_says_is_refused(ball) -> None:
    model, x = cases.tabular()
    enclosure(Half(0.1), x)
    with pytest.raises(ab.InputError, match=r"expected perturbations that lie in what its method"):
        enclosure(ball, x)
    for claim in ("first_order", "mean_value", "certified"):
        with pytest.raises(ab.InputError, match=r"one outside, made by its method project"):
            ab.bound(ab.Saliency(model), x, ball, claim=claim)


def test_a_ball_that_knows_no_other_can_only_be_attacked_in() -> None:
    model, x = cases.tabular()
    PGD(steps=2)(ab.Saliency(model), x, Homeless(0.1))
    with pytest.raises(ab.InputError, match=r"ball Homeless: expected one that lies in a scaled p"):
        ab.bound(ab.Saliency(model), x, Homeless(0.1))


def test_refuses_what_is_no_ball() -> None:
    with pytest.raises(ab.InputError, match=r"ball: expected a ball, got 0\.1"):
        check_ball(0.1, torch.rand(1, 2))
