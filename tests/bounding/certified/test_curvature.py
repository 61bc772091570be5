"""Ranges and constants of the activations, against dense grids and closed forms."""

from __future__ import annotations

import decimal
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attribound.bounding.certified.activation import (
    EVALUATION,
    SmoothActivation,
    logistic,
    logistic_range,
)
from attribound.bounding.certified.curvature import PIECES, curvature, running_means

KINDS = {
    "softplus": (SmoothActivation.softplus(1.0, 20.0), nn.Softplus()),
    "sharp": (SmoothActivation.softplus(25.0, 1e9), nn.Softplus(25.0, threshold=1e9)),
    "sigmoid": (SmoothActivation.sigmoid(), nn.Sigmoid()),
    "tanh": (SmoothActivation.tanh(), nn.Tanh()),
}
CENTRES = torch.linspace(-6, 6, 49, dtype=torch.float64)


def derivatives(module: nn.Module, z: torch.Tensor, count: int) -> list[torch.Tensor]:
    """The function and its derivatives, by autograd."""
    z = z.clone().requires_grad_()
    values = [module(z)]
    for _ in range(count):
        values.append(torch.autograd.grad(values[-1].sum(), z, create_graph=True)[0])
    return [value.detach() for value in values]


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_torch_within_the_stated_error(kind) -> None:
    activation, module = KINDS[kind]
    z = torch.linspace(-4, 4, 401, dtype=torch.float64)
    for order, exact in enumerate(derivatives(module, z, 2)):
        gap = (activation.derivative(order, z) - exact).abs()
        # autograd loses digits of its own in 1 - p
        assert (gap <= activation.error(order, z) + 1e-13 * activation.size(order)).all()


def test_errors_are_those_of_everything_that_is_added() -> None:
    """32 roundings of the value and 32 of its constant, twice; of softplus of what it grows to."""
    z = torch.linspace(-4, 40, 12, dtype=torch.float64)
    for kind, (activation, _) in KINDS.items():
        size, rate = abs(activation.scale), activation.rate
        for order in (0, 1, 2):
            grows = (1 + (rate * z).abs()) if kind in ("softplus", "sharp") and order == 0 else 1.0
            terms = size * rate**order * grows + abs(activation.offset) + 0 * z
            said = activation.error(order, z)
            torch.testing.assert_close(said, 2.0**-47 * terms, rtol=1e-9, atol=0)


def test_stated_errors_against_exact_arithmetic() -> None:
    """Fifty decimal digits."""
    decimal.getcontext().prec = 50
    one = decimal.Decimal(1)
    for beta in (1.0, 7.3):
        activation = SmoothActivation.softplus(beta, 20.0)
        for z in (-30.0, -1.234, -1e-9, 0.0, 0.37, 5.5, 19.0):
            e = (decimal.Decimal(beta) * decimal.Decimal(z)).exp()
            p = e / (one + e)
            exact = [
                (one + e).ln() / decimal.Decimal(beta),
                p,
                decimal.Decimal(beta) * p * (one - p),
            ]
            at = torch.tensor([z], dtype=torch.float64)
            for order, value in enumerate(exact):
                computed = decimal.Decimal(activation.derivative(order, at).item())
                assert abs(computed - value) <= decimal.Decimal(activation.error(order, at).item())


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_range_against_a_dense_grid(order) -> None:
    """Never inside the truth, and no wider than the grid can tell."""
    for centre in CENTRES:
        for radius in (0.0, 0.01, 0.7, 5.0):
            grid = torch.linspace(-1, 1, 4001, dtype=torch.float64) * radius + centre
            values = logistic(order, grid)
            least, most = logistic_range(order, grid[0], grid[-1])
            assert least <= values.min()
            assert most >= values.max()
            assert most - values.max() <= 1e-5
            assert values.min() - least <= 1e-5


def test_range_at_the_extremes_in_closed_form() -> None:
    low, high = torch.tensor(-9.0).double(), torch.tensor(9.0).double()
    assert logistic_range(1, low, high)[1].item() == pytest.approx(1 / 4)
    assert logistic_range(2, low, high)[1].item() == pytest.approx(1 / (6 * math.sqrt(3)))
    least, most = logistic_range(3, low, high)
    assert least.item() == pytest.approx(-1 / 8)
    assert most.item() == pytest.approx(1 / 24)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [1e-6, 0.02, 0.5, 4.0])
def test_constants_against_a_dense_grid(kind, radius) -> None:
    """Each inequality holds at every h, and the constant is at most a little above the best."""
    activation, module = KINDS[kind]
    z = CENTRES / activation.rate * 2
    bounds = curvature(activation, z, torch.full_like(z, radius))
    h = torch.linspace(-1, 1, 2001, dtype=torch.float64).unsqueeze(1) * radius
    h = h[h[:, 0] != 0]
    value, slope, bend = derivatives(module, z, 2)
    moved_value, moved_slope = derivatives(module, z + h, 1)
    gaps = {
        "chord": ((moved_value - value).abs(), h.abs()),
        "bow": ((moved_value - value - slope * h).abs(), h**2),
        "turn": ((moved_slope - slope).abs(), h.abs()),
        "twist": ((moved_slope - slope - bend * h).abs(), h**2),
        "swing": ((moved_slope - slope).abs(), torch.ones_like(h)),
    }
    size = activation.size(1) + activation.size(0)
    for name, (gap, scale) in gaps.items():
        constant = getattr(bounds, name)
        assert (gap <= constant * scale + 1e-14 * size).all(), name
        # In smaller ones the rounding of the grid hides the truth; wider ones need more pieces.
        if 0.02 <= radius <= 5 / activation.rate:
            best = ((gap - 1e-14 * size) / scale).amax(0)
            order = {"chord": 1, "bow": 2, "turn": 2, "twist": 3, "swing": 1}[name]
            assert (constant <= 1.25 * best + 0.08 * activation.size(order)).all(), name


def test_constants_are_sharper_than_suprema_and_one_piece_is_the_supremum() -> None:
    activation = SmoothActivation.softplus(20.0, 20.0)
    z, radius = torch.tensor([0.1, 0.0]).double(), torch.tensor([0.15, 0.15]).double()
    fine, coarse = curvature(activation, z, radius), curvature(activation, z, radius, pieces=1)
    top = 20 * logistic_range(1, 20 * (z - radius), 20 * (z + radius))[1]
    torch.testing.assert_close(coarse.turn, top, rtol=1e-9, atol=0)
    assert fine.turn[0] < 0.9 * coarse.turn[0]
    assert fine.twist[1] < 0.9 * coarse.twist[1]


def test_an_unbounded_interval_gets_the_global_supremum() -> None:
    z = torch.zeros(3).double()
    for radius in (math.inf, math.nan, 1e200):
        bounds = curvature(SmoothActivation.sigmoid(), z, torch.full_like(z, radius))
        assert (bounds.turn >= 1 / (6 * math.sqrt(3))).all()
        assert (bounds.swing >= 0.25).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12))
def test_running_means_against_a_grid(values) -> None:
    steps = torch.tensor(values, dtype=torch.float64)
    mean, weighted = running_means(steps)
    fine = 400
    samples = steps.repeat_interleave(fine)
    count = torch.arange(1, len(samples) + 1).double()
    total = samples.cumsum(0)
    assert mean >= (total / count).max() - 1e-9
    averages = 2 * (total.cumsum(0) - total / 2) / count**2
    assert weighted >= averages.max() - 1e-9
    assert weighted <= max(steps[0].item(), (total / count).max().item()) + 1e-9


def test_running_means_that_look_at_whole_pieces_only_are_too_small() -> None:
    """Between pieces the weighted mean can be larger than at their ends."""
    steps = torch.tensor([0.0, 1.0, -1.0, -1.0]).double()
    count = torch.arange(1, 5).double()
    total = steps.cumsum(0)
    ends = 2 * (total.cumsum(0) - total / 2) / count**2
    samples = steps.repeat_interleave(400)
    fine = torch.arange(1, 1601).double()
    true = (2 * (samples.cumsum(0).cumsum(0) - samples.cumsum(0) / 2) / fine**2).max()
    assert ends.max() < true
    assert running_means(steps)[1] >= true


def test_the_switch_is_zero_below_the_threshold() -> None:
    activation = SmoothActivation.softplus(2.0, 6.0)
    high = torch.tensor([2.9, 3.0, 5.0]).double()
    value, slope = (activation.switch(order, high) for order in (0, 1))
    assert value[0] == slope[0] == 0
    assert (SmoothActivation.softplus(2.0, -1e4).switch(0, high) > 1e100).all()
    smooth = SmoothActivation.softplus(2.0, 1e9)
    z = torch.tensor([3.0000001, 5.0]).double()
    assert ((smooth.derivative(0, z) - z).abs() <= value[1:]).all()
    assert ((1 - smooth.derivative(1, z)).abs() <= slope[1:]).all()


def test_the_switch_is_never_below_the_exact_jump() -> None:
    """Fifty digits, where log(1 + exp(-t)) and exp(-t) agree in thirteen; a hair below it, too."""
    decimal.getcontext().prec = 50
    one = decimal.Decimal(1)
    for beta in (0.25, 1.0, 4.0):
        activation = SmoothActivation.softplus(beta, 30.0)
        high = torch.tensor([30.0 / beta * (1 - 1e-15)]).double()
        e = (-decimal.Decimal(30)).exp()
        for order, exact in ((0, (one + e).ln() / decimal.Decimal(beta)), (1, e / (one + e))):
            jump = decimal.Decimal(activation.switch(order, high).item())
            assert exact <= jump <= exact * decimal.Decimal("1.00000001")
        below = torch.tensor([30.0 / beta * (1 - 1e-6)]).double()
        assert activation.switch(0, below) == activation.switch(1, below) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_constants_leave_the_room_for_evaluation_that_was_derived(kind) -> None:
    """At a point each is a derivative there: what is above it is margin, and no more of that."""
    activation, _ = KINDS[kind]
    z = torch.tensor([0.0, 0.7, -1.9, 3.0], dtype=torch.float64) / activation.rate
    bounds = curvature(activation, z, torch.zeros_like(z))
    centre = activation.rate * z
    value, slope, bend = (logistic(activation.order + order, centre).abs() for order in (1, 2, 3))
    p = torch.sigmoid(centre)
    first = p * (1 - p)
    third = (first * (1 - 2 * p), first * (1 - 6 * first), first * (1 - 2 * p) * (1 - 12 * first))
    steep = (slope, bend, third[activation.order + 2].abs())
    means = 1 + 8 * PIECES
    for name, order, derivative, own, share in (
        ("chord", 1, value, means, 1),
        ("bow", 2, slope, means, 2),
        ("turn", 2, slope, means, 1),
        ("twist", 3, bend, means, 2),
        ("swing", 1, torch.zeros_like(z), 1 + 4, 1),
    ):
        made = share * getattr(bounds, name) / activation.size(order)
        room = (made - derivative) / EVALUATION
        # Of the margin of the product, of the sums, and of the edges where it is not extreme.
        wanted = 64 * derivative + own + steep[order - 1] * centre.abs()
        assert (room >= wanted - 0.2).all(), name
        assert (room <= wanted + 0.7).all(), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.1, 1.0, 6.0])
def test_turned_around_the_constants_are_the_same(kind, radius) -> None:
    """What the derivatives do to the left of z, they do to the right of -z."""
    activation, _ = KINDS[kind]
    z = CENTRES / activation.rate
    reach = torch.full_like(z, radius / activation.rate)
    one, other = curvature(activation, z, reach), curvature(activation, -z, reach)
    for name in ("bow", "turn", "twist", *(("chord",) if activation.order == 0 else ())):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-9, atol=0)
