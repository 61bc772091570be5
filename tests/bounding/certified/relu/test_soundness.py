"""Nothing in the ball moves further than is proved: grids, enumeration, and broken steps."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import attribound as ab
from attribound.bounding.certified.network import unroll
from attribound.bounding.certified.path import paths
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu import (
    deviation,
    directions,
    farkas,
    node,
    reach,
    sweep,
)
from attribound.bounding.certified.relu.region import Region, regions
from attribound.bounding.certified.relu.tree import Limits
from bounding.certified.relu.tiny import Case, case, enumerated

SOME = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**31)
LABEL = torch.zeros(1, dtype=torch.long)


def certified(example: Case, attribution: ab.Attribution, **effort: float) -> ab.Bound:
    return ab.bound(
        attribution, example.x, example.ball, LABEL, ab.Certified(seconds=600, **effort)
    )


def exceeded(example: Case, **effort: float) -> bool:
    """Whether the grid goes further than the certificate."""
    attribution = ab.Saliency(example.net)
    bound = certified(example, attribution, **effort).euclidean.item()
    return not example.deviation(attribution, LABEL) <= bound


@SOME
@given(SEEDS, st.sampled_from([1, 8, 200]))
@example(1602, 8)  # moved maps are larger than the one at x, and so is their rounding
def test_no_point_of_a_grid_exceeds_it(seed, nodes) -> None:
    assert not exceeded(case(seed), nodes=nodes)


@FEW
@given(SEEDS)
def test_no_point_of_a_grid_exceeds_that_of_other_attributions(seed) -> None:
    held(seed)


@pytest.mark.slow
@MANY
@given(SEEDS, st.sampled_from([1, 8, 200]))
def test_nor_on_many_networks(seed, nodes) -> None:
    assert not exceeded(case(seed), nodes=nodes)
    held(seed)


def held(seed: int) -> None:
    example = case(seed)
    kinds = (
        ab.InputXGradient(example.net),
        ab.IntegratedGradients(example.net, steps=3, baseline=0.3),
        ab.IntegratedGradients(example.net, steps=4, multiply_by_inputs=False),
    )
    attribution = kinds[seed % 3]
    bound = certified(example, attribution, nodes=20).euclidean.item()
    assert example.deviation(attribution, LABEL) <= bound


@FEW
@given(SEEDS)
def test_all_regions_of_a_cube_are_covered_and_a_closed_tree_is_exact(seed) -> None:
    """Against enumeration by linear programs; "exact" means the same number."""
    example = case(seed, math.inf)
    network = unroll(example.net, tuple(example.x.shape[1:]))
    assert isinstance(network, Rectified)
    if sum(network.widths) > 9:
        return
    truth = enumerated(network, example.x, 0, example.ball)
    found = certified(example, ab.Saliency(example.net), nodes=500)
    assert truth <= found.euclidean.item() * (1 + 1e-6) + 1e-9
    assert found.gap.attained.item() <= found.euclidean.item()
    assert found.euclidean.item() <= found.gap.root.item() * (1 + 1e-6)
    # Where neurons tie, rounding alone can switch them: no region that has an inside.
    seen = found.gap.attained.item() <= truth * (1 + 1e-9)
    if seen and found.gap.exact.item() and example.x.dtype == torch.float64:
        assert found.euclidean.item() <= truth * (1 + 1e-4) + 1e-6 * found.attribution_norm.item()


def opened(example: Case) -> tuple[Rectified, Region, sweep.Swept]:
    attribution = ab.Saliency(example.net)
    network = unroll(example.net, tuple(example.x.shape[1:]))
    assert isinstance(network, Rectified)
    (path,), (region,) = paths(attribution, example.x), regions(example.ball, example.x)
    point = sweep.Point(path.x, path.spread, 0, torch.finfo(example.x.dtype).eps / 2)
    return network, region, sweep.sweep(network, region, point, 2**30)


def switched_at(network: Rectified, x: torch.Tensor) -> list[torch.Tensor]:
    """Preactivations, layer by layer."""
    values = []
    for stage, slope in zip(network.stages[:-1], network.slopes, strict=True):
        values.append(stage.value(x))
        x = torch.where(values[-1] > 0, values[-1], slope * values[-1])
    return values


@SOME
@given(SEEDS)
def test_every_enclosure_holds_at_every_point_of_a_grid(seed) -> None:
    """Reaches, thresholds, what can't switch, intervals of features and differences."""
    example = case(seed)
    network, region, swept = opened(example)
    root = node.node_of(swept.compact, region)
    deltas = example.deltas.double()
    values = switched_at(network, example.x.double() + deltas)
    compact = root.compact
    if len(compact):
        for item in range(len(root.items.neurons)):
            neuron = int(root.items.neurons[item])
            layer = int(compact.layer[neuron])
            column = int(swept.places[neuron])
            switched = (values[layer][:, column] > 0) != (compact.z[neuron] > 0)
            along = deltas @ root.items.slope[item]
            assert (along[switched] >= root.items.threshold[item] - 1e-12).all()
    size = example.x.shape[1]
    pairs = torch.eye(size) - torch.roll(torch.eye(size), 1, 0)
    directions = torch.cat([torch.eye(size), pairs]).double()
    low, high = node.ends_along(compact, directions)
    moved = network.gradients(example.x.double() + deltas, 0) - swept.gradient
    along = moved @ directions.T
    assert (along >= low - 1e-12).all()
    assert (along <= high + 1e-12).all()


@FEW
@given(SEEDS)
def test_features_and_pairs_of_any_attribution_stay_in_their_intervals(seed) -> None:
    example = case(seed)
    kinds = (
        ab.Saliency(example.net),
        ab.InputXGradient(example.net),
        ab.IntegratedGradients(example.net, steps=3, baseline=0.3),
    )
    attribution = kinds[seed % 3]
    network, region, _ = opened(example)
    (path,) = paths(attribution, example.x)
    unit = torch.finfo(example.x.dtype).eps / 2
    effort = deviation.Effort(Limits(20, 600.0), 2**30, unit)
    size = example.x.shape[1]
    pairs = torch.eye(size) - torch.roll(torch.eye(size), 1, 0)
    along = torch.cat([torch.eye(size), pairs]).double()
    low, high = directions.along(network, path, 0, region, effort, along)
    double = attribution.of(example.net.double())
    points = (example.x + example.deltas).double()
    maps = double(points, LABEL.expand(len(points))) - double(example.x.double(), LABEL)
    moved = maps @ along.T
    assert (moved >= low - 1e-9 - 1e-6 * moved.abs()).all()
    assert (moved <= high + 1e-9 + 1e-6 * moved.abs()).all()


BROKEN = range(400)  # until one is caught


def test_a_remainder_of_the_wrong_sign_is_caught(monkeypatch) -> None:
    """What other neurons add to a preactivation is r >= 0, not r <= 0."""
    right = reach.upper

    def wrong(compact, chords, region, rows, direction):
        turned = reach.Chords(chords.low, -chords.slope, -chords.most)
        return right(compact, turned, region, rows, direction)

    monkeypatch.setattr(reach, "upper", wrong)
    monkeypatch.setattr(sweep, "upper", wrong)
    assert any(exceeded(case(seed, 2.0), nodes=1) for seed in BROKEN)


def test_a_chord_below_the_function_is_caught(monkeypatch) -> None:
    right = reach.extended

    def wrong(chords, rows, low, high):
        found = right(chords, rows, low, high)
        return reach.Chords(found.low, found.slope / 4, found.most)

    monkeypatch.setattr(reach, "extended", wrong)
    monkeypatch.setattr(sweep, "extended", wrong)
    assert any(exceeded(case(seed, 2.0), nodes=1) for seed in BROKEN)


def test_a_neuron_that_is_not_flipped_says_nothing() -> None:
    """Items that are not taken may be switched with another w: no constraint follows."""

    def unsound(example: Case) -> bool:
        network, region, swept = opened(example)
        items = node.node_of(swept.compact, region).items
        deltas = example.deltas.double()
        taken = deltas @ items.slope.T >= items.threshold  # taken if and only if it may be
        broken = (taken.double() @ items.vectors).norm(dim=1).max().item()
        start = network.gradients(example.x.double(), 0)
        moved = network.gradients(example.x.double() + deltas, 0) - start
        return moved.norm(dim=1).max().item() > broken * (1 + 1e-6) + 1e-9

    assert any(unsound(case(seed, 2.0)) for seed in BROKEN)


def test_a_proof_without_a_margin_is_caught(monkeypatch) -> None:
    """Inequalities that hold at the border of the ball, in rational numbers, are not refuted."""
    generator = torch.Generator().manual_seed(0)

    def refuted() -> int:
        count = 0
        for _ in range(200):
            slope = torch.randn(1, 5, generator=generator, dtype=torch.float64)
            delta = slope[0] / slope[0].norm()
            while sum(Fraction(each) ** 2 for each in delta.tolist()) > 1:
                delta = delta * (1 - 2**-53)
            exact = sum(
                Fraction(a) * Fraction(b)
                for a, b in zip(slope[0].tolist(), delta.tolist(), strict=True)
            )
            value = float(exact)
            while Fraction(value) > exact:
                value = math.nextafter(value, -math.inf)
            ones = torch.ones(5, dtype=torch.float64)
            region = Region(2.0, 1.0, ones, -10 * ones, 10 * ones)
            count += farkas.infeasible(region, slope, torch.tensor([value], dtype=torch.float64))
        return count

    assert refuted() == 0
    monkeypatch.setattr(farkas, "MARGIN", 0.0)
    monkeypatch.setattr(Region, "support", lambda self, rows: self.epsilon * rows.norm(dim=1))
    assert refuted() > 0


@pytest.mark.parametrize("nodes", [1, 30])
def test_one_hidden_layer_has_no_slack_but_that_of_independent_switches(nodes) -> None:
    """One neuron: the certificate is the jump of the gradient, |w1 w2|, or nothing."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU(), torch.nn.Linear(1, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        net[0].bias.fill_(-1.0)
        net[2].weight.copy_(torch.tensor([[2.0], [0.0]]))
    x = torch.zeros(1, 2, dtype=torch.float64)
    for radius, jump in ((0.19, 0.0), (0.21, 10.0)):
        found = certified(Case(net.double(), x, ab.L2Ball(radius)), ab.Saliency(net), nodes=nodes)
        assert found.euclidean.item() == pytest.approx(jump, abs=1e-6)
        assert found.gap.exact.item()
        assert found.source == ("switches, exact",)
