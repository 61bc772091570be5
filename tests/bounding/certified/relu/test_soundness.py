"""Nothing in the ball moves further than is proved: grids, enumeration, and broken steps."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import attribound as ab
from attribound.basics import rounding
from attribound.basics.rounding import SLACK, TINY, UNIT
from attribound.bounding.certified.network import unroll
from attribound.bounding.certified.path import paths
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu import (
    adjoint,
    deviation,
    directions,
    farkas,
    node,
    reach,
    sweep,
)
from attribound.bounding.certified.relu import bound as certified_bound
from attribound.bounding.certified.relu import compact as compact_form
from attribound.bounding.certified.relu import region as region_module
from attribound.bounding.certified.relu import tree as tree_module
from attribound.bounding.certified.relu.compact import SWITCHED, Compact
from attribound.bounding.certified.relu.noise import through
from attribound.bounding.certified.relu.region import Region, regions
from attribound.bounding.certified.relu.tree import Limits
from bounding.certified import reference
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


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_every_point_of_a_path_counts(steps) -> None:
    """Maps of one, two and three points move by what each of these moves by."""
    for seed in (1, 4, 7, 13):
        example = case(seed, 2.0)
        kind = ab.IntegratedGradients(example.net, steps=steps, multiply_by_inputs=False)
        bound = certified(example, kind, nodes=20).euclidean.item()
        assert example.deviation(kind, LABEL) <= bound


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
        ab.IntegratedGradients(example.net, steps=2, multiply_by_inputs=False),
    )
    attribution = kinds[seed % 4]
    bound = certified(example, attribution, nodes=20).euclidean.item()
    assert example.deviation(attribution, LABEL) <= bound


@FEW
@given(SEEDS)
@example(31182)  # no attribution at all: the bound is the smallest number that is rounded up to
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
        room = 1e-6 * found.attribution_norm.item() + 2 * TINY
        assert found.euclidean.item() <= truth * (1 + 1e-4) + room


def opened(example: Case, rough: bool = False) -> tuple[Rectified, Region, sweep.Swept]:
    """The network, the region, and what is swept there: on a machine with four digits, if so."""
    attribution = ab.Saliency(example.net)
    network = unroll(example.net, tuple(example.x.shape[1:]))
    assert isinstance(network, Rectified)
    (path,), (region,) = paths(attribution, example.x), regions(example.ball, example.x)
    unit = UNIT if rough else torch.finfo(example.x.dtype).eps / 2
    point = sweep.Point(path.x, path.spread, 0, unit)
    seen = reference.roughened(network) if rough else network
    return network, region, sweep.sweep(seen, region, point, 2**30)


def switched_at(network: Rectified, x: torch.Tensor) -> list[torch.Tensor]:
    """Preactivations, layer by layer."""
    values = []
    for stage, slope in zip(network.stages[:-1], network.slopes, strict=True):
        values.append(stage.value(x))
        x = torch.where(values[-1] > 0, values[-1], slope * values[-1])
    return values


def adjoints_at(network: Rectified, values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Derivatives of the logit by what switching adds to a neuron, layer by layer."""
    v = torch.zeros(len(values[0]), network.stages[-1].sizes[-1], dtype=torch.float64)
    v[:, 0] = 1.0
    found = []
    for number in range(len(values) - 1, -1, -1):
        stage, slope, z = network.stages[number + 1], network.slopes[number], values[number]
        u = stage.adjoint(v)
        found.append((1 - slope) * u)
        v = torch.where(z > 0, u, slope * u)
    return found[::-1]


@SOME
@given(SEEDS)
def test_every_enclosure_holds_at_every_point_of_a_grid(seed) -> None:
    """Reaches, thresholds, what can't switch, intervals of features and differences."""
    example = case(seed)
    assert holds(example, *opened(example))


@SOME
@given(SEEDS, st.sampled_from([None, 1e-3]))
def test_every_enclosure_holds_on_a_machine_with_four_digits(seed, radius) -> None:
    """Whatever rounding is, its size is stated: so all holds where it is enormous."""
    example = case(seed)
    if radius is not None:
        example = replace(example, ball=example.ball.at_radius(radius))
    assert holds(example, *opened(example, rough=True))


def deviated(
    example: Case, attribution: ab.Attribution, nodes: int, seconds: float = 600.0
) -> deviation.Flips:
    """What is proved of the first label, in float64 numbers."""
    network = unroll(example.net, tuple(example.x.shape[1:]))
    (path,), (region,) = paths(attribution, example.x), regions(example.ball, example.x)
    unit = torch.finfo(example.x.dtype).eps / 2
    effort = deviation.Effort(Limits(nodes, seconds), 2**30, unit)
    return deviation.flips(network, path, 0, region, effort)


def in_units(example: Case, seed: int) -> tuple[Case, list[torch.Tensor]]:
    """Inputs, neurons and logits in units of their own."""
    units = reference.some_units(example.net, seed)
    x = units[0][0].item()
    ends = {
        name: end and end * x
        for name in ("low", "high")
        if (end := getattr(example.ball, name)) is not None
    }
    ball = replace(example.ball, epsilon=example.ball.epsilon * x, **ends)
    return Case(reference.in_units(example.net, units), example.x * x, ball), units


def same(one: torch.Tensor, other: torch.Tensor, rtol: float = 1e-12) -> None:
    torch.testing.assert_close(one, other.to(one), rtol=rtol, atol=2.0**-300)


@pytest.mark.parametrize("seed", [*range(16), 22, 25])
def test_in_other_units_all_is_the_same(seed, monkeypatch) -> None:
    """Inputs, neurons and logits in any unit: every number is in the unit that it should be in."""
    example = case(seed)
    other, units = in_units(example, seed)
    x, out = units[0][0].double(), units[-1][0].double()
    (_, region, swept), (_, again, swept_again) = opened(example), opened(other)
    compact, unit = swept.compact, torch.ones(len(swept.compact)).double()
    for number, layer in enumerate(units[1:-1]):
        own = compact.layer == number
        unit[own] = layer[swept.places[own]].double()
    in_compact = dict.fromkeys(("z", "noise", "most"), unit)
    in_compact |= dict.fromkeys(("u", "adjoint_noise", "u_low", "u_high"), out / unit)
    in_compact |= {"jacobian": (unit / x).unsqueeze(1), "matrix": unit.unsqueeze(1) / unit}
    in_compact |= {"shift": out / x, "layer": 1, "state": 1, "s": 1}

    def agree(one: Compact, two: Compact) -> None:
        for name, each in in_compact.items():
            same(getattr(one, name) * each, getattr(two, name))
        noise = one.gradient_noise * (out / x).item()
        assert two.gradient_noise == pytest.approx(noise, rel=1e-9, abs=2.0**-300)

    agree(compact, swept_again.compact)
    same(swept.gradient * out / x, swept_again.gradient)
    assert torch.equal(swept.places, swept_again.places)
    pairs = [(compact, swept_again.compact)]
    if len(compact):
        neuron = seed % len(compact)
        pairs += zip(
            node.parts(compact, neuron, region),
            node.parts(swept_again.compact, neuron, again),
            strict=True,
        )
    for one, two in pairs:
        agree(one, two)
        found, found_again = node.node_of(one, region), node.node_of(two, again)
        agree(found.compact, found_again.compact)
        assert found.empty == found_again.empty
        who = found.items.neurons
        assert torch.equal(who, found_again.items.neurons)
        same(found.items.vectors * out / x, found_again.items.vectors)
        same(found.items.slope * (unit[who] / x).unsqueeze(1), found_again.items.slope)
        same(found.items.threshold * unit[who], found_again.items.threshold)
    monkeypatch.setattr(deviation, "BRANCHED", 150 if seed % 2 else 0)
    kind = (ab.Saliency, ab.InputXGradient, ab.IntegratedGradients)[seed % 3]
    more = {"steps": 3} if seed % 3 == 2 else {}
    moved = deviated(example, kind(example.net, **more), 6)
    moved_again = deviated(other, kind(other.net, **more), 6)
    of_map = (out if seed % 3 else out / x).item()
    for name in ("value", "root", "attained"):
        expected = pytest.approx(getattr(moved, name) * of_map, rel=1e-6)
        assert getattr(moved_again, name) == expected
    names = ("neurons", "nodes", "exact", "stopped")
    assert [getattr(moved, name) for name in names] == [
        getattr(moved_again, name) for name in names
    ]


def of_neurons(swept: sweep.Swept, values: list[torch.Tensor]) -> torch.Tensor:
    """Of values layer by layer those of the neurons of a compact form."""
    rows = zip(swept.compact.layer.tolist(), swept.places.tolist(), strict=True)
    found = [values[layer][:, place] for layer, place in rows]
    return torch.stack(found, 1) if found else values[0][:, :0]


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6, 9, 12, 13])
def test_the_relations_of_a_compact_form_are_exact(seed) -> None:
    """At every point of a grid, before a neuron is fixed and after; noise is all that is left."""
    example = case(seed)
    example = Case(example.net.double(), example.x.double(), example.ball)
    network, region, swept = opened(example)
    whole, deltas = swept.compact, example.deltas
    values = switched_at(network, example.x + deltas)
    z, u = of_neurons(swept, values), of_neurons(swept, adjoints_at(network, values))
    change = network.gradients(example.x + deltas, 0) - swept.gradient
    switched = (z > 0) != (whole.z > 0)
    parts = [(whole, torch.ones(len(deltas), dtype=torch.bool))]
    for neuron in range(len(whole)):
        kept, turned = node.parts(whole, neuron, region)
        parts += [(kept, ~switched[:, neuron]), (turned, switched[:, neuron])]
    for part, own in parts:
        free = part.free
        r = torch.where(free, (whole.s * z).clamp_min(0), 0.0)
        w = torch.where(free & switched, whole.s * u, 0.0)
        relations = (
            (z, part.z + deltas @ part.jacobian.T + r @ part.matrix.T, part.noise),
            (u, part.u + w @ part.matrix, part.adjoint_noise),
            (change, part.shift + w @ part.jacobian, torch.tensor(part.gradient_noise)),
        )
        for truth, said, noise in relations:
            size = max([1.0, *truth.flatten().abs().tolist()])
            assert ((truth - said)[own].abs() <= noise + 1e-15 * size).all()
            assert (noise <= 1e-10 * size).all()
        assert ((r <= part.most + 1e-12 * (1 + r))[own]).all()
        # What a search beside known perturbations goes by: all of it, by masks of its own.
        size = max([1.0, *change.flatten().abs().tolist()])
        off = (part.moves(deltas) - change).norm(dim=1) > 1e-9 * size
        near = (z.abs() <= 1e-9 * (1 + whole.z.abs())).any(1)  # where rounding alone decides
        assert not (off & own & ~near).any()


def some_chords(compact: Compact, seed: int) -> reach.Chords:
    generator = torch.Generator().manual_seed(seed)
    low = -torch.rand(len(compact), generator=generator, dtype=torch.float64)
    most = torch.where(compact.free, compact.most, 0.0)
    slope = torch.where(compact.free, most / (most - low), 0.0)
    return reach.Chords(torch.where(compact.free, low, 0.0), slope, most)


def deep() -> list[tuple[Region, Compact, int]]:
    """Compact forms of several layers, in which some neurons are fixed and noise is no trifle."""
    found = []
    for seed in range(60):
        _, region, swept = opened(case(seed, 2.0 if seed % 2 else math.inf))
        compact = swept.compact
        if len(compact) > 4 and len(compact.layers()) > 2:
            noisy = replace(
                compact, noise=0.01 * compact.z.abs(), adjoint_noise=0.01 * compact.u.abs()
            )
            found += [(region, noisy, seed), (region, noisy.kept(1).switched(0, region), seed)]
    assert len(found) > 6
    return found[:12]


@pytest.mark.parametrize("slack", [0.0, 1e-3])
def test_reaches_are_those_of_loops_over_neurons(slack, monkeypatch) -> None:
    """Both upper functions, the second by putting in one neuron after the other, and their room."""
    monkeypatch.setattr(reach, "SLACK", slack)
    for region, compact, seed in deep():
        chords, free = some_chords(compact, seed), compact.free
        for row in range(len(compact)):
            sign = 1.0 if row % 2 else -1.0
            at, turned = torch.tensor([row]), torch.tensor([sign]).double()
            found = reach.upper(compact, chords, region, at, turned)
            slope, above = sign * compact.jacobian[row], sign * compact.matrix[row] * free
            constant = sign * compact.z[row] + compact.noise[row]
            size = compact.z[row].abs() + compact.noise[row] + region.size(slope[None])[0]
            size = size + above.abs() @ chords.most
            boxed = constant + above.clamp_min(0) @ chords.most + region.support(slope[None])[0]
            boxed, absolute = boxed + slack * size, above.abs()
            for layer in sorted(set(compact.layer[:row].tolist()), reverse=True):
                own = (free & (compact.layer == layer)).nonzero().flatten().tolist()
                if layer >= compact.layer[row] or not any(above[k] > 0 for k in own):
                    continue
                for k in own:  # neurons of a layer do not meet each other: any order is right
                    taken = above[k].clamp_min(0) * chords.slope[k]
                    beyond = compact.s[k] * compact.z[k] + compact.noise[k] - chords.low[k]
                    constant = constant + taken * beyond
                    slope = slope + taken * compact.s[k] * compact.jacobian[k]
                    above = above + taken * compact.s[k] * compact.matrix[k] * free
                    extent = compact.z[k].abs() + compact.noise[k] - chords.low[k]
                    extent = extent + region.size(compact.jacobian[k][None])[0] + chords.most[k]
                    size = size + absolute[k] * extent
                    absolute = absolute + absolute[k] * compact.matrix[k].abs() * free
            room = slack * (size + absolute @ chords.most)
            chained = constant + region.support(slope[None])[0] + room
            assert found.value[0].item() == pytest.approx(min(boxed, chained).item(), 1e-9)
            whole = found.constant[0] + region.support(found.slope)[0]
            assert whole.item() == pytest.approx(found.value[0].item(), 1e-9)


def at_zero(compact: Compact) -> Compact:
    """With ends of adjoints, and adjoints, that are zero."""
    third = torch.arange(len(compact)) % 3
    return replace(
        compact,
        u_low=torch.where(third == 0, 0.0, compact.u_low),
        u_high=torch.where(third == 1, 0.0, compact.u_high).clamp_min(0),
    )


@pytest.mark.parametrize("slack", [0.0, 1e-3])
def test_sums_of_w_are_those_of_loops_over_neurons(slack, monkeypatch) -> None:
    monkeypatch.setattr(adjoint, "SLACK", slack)
    generator = torch.Generator().manual_seed(0)
    every = [compact for _, compact, _ in deep()]
    for compact in (*every, *map(at_zero, every)):
        rows = torch.randn(3, len(compact), generator=generator, dtype=torch.float64)
        for above in (-1, compact.layers()[0]):
            active = compact.free & (compact.layer > above)
            for row, said in zip(rows, adjoint.largest(compact, rows, above), strict=True):
                plain, total, c = 0.0, 0.0, row.clone() * active
                size, absolute = 0.0, c.abs()
                for k in active.nonzero().flatten().tolist():
                    low, high = compact.u_low[k], compact.u_high[k]
                    w = [0.0, (compact.s[k] * low).item(), (compact.s[k] * high).item()]
                    plain += max(row[k].item() * each for each in w)
                    plain += slack * abs(row[k].item()) * max(map(abs, w))
                    first, second = sorted(
                        (c[k] * compact.s[k] * end).item() for end in (low, high)
                    )
                    chord = 1.0 if first >= 0 else max(second, 0.0) / (second - first)
                    taken = chord * c[k] * compact.s[k]
                    total += -chord * min(first, 0.0) + (taken * compact.u[k]).item()
                    total += (taken.abs() * compact.adjoint_noise[k]).item()
                    own = compact.matrix[:, k] * active
                    terms = compact.u[k].abs() + max(high, -low) + compact.adjoint_noise[k]
                    size += (absolute[k] * terms).item()
                    c, absolute = c + taken * own, absolute + absolute[k] * own.abs()
                several = len(set(compact.layer[active].tolist())) > 1
                expected = min(plain, total + 4 * slack * size) if several else plain
                assert said.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_ends_of_adjoints_are_those_sums_with_noise(monkeypatch) -> None:
    """Of the last layer first; what can't switch, and what was known to be closer, is left."""
    slack = 1e-3
    monkeypatch.setattr(adjoint, "SLACK", slack)
    for _, compact, _ in deep():
        inf = torch.full_like(compact.z, math.inf)
        found = adjoint.adjoints(replace(compact, u_low=-inf, u_high=inf))
        near = adjoint.adjoints(replace(compact, u_low=compact.u - 1e-9, u_high=inf))
        for k in range(len(compact)):
            if not compact.free[k]:
                assert math.isinf(found.u_low[k])
                assert math.isinf(found.u_high[k])
                continue
            column, layer = compact.matrix[:, k][None], int(compact.layer[k])
            room = compact.adjoint_noise[k] + slack * compact.u[k].abs()
            same(found.u_high[k], adjoint.largest(found, column, layer)[0] + compact.u[k] + room)
            least = adjoint.largest(found, -column, layer)[0] - compact.u[k] + room
            same(found.u_low[k], -least)
            assert near.u_low[k] == max(compact.u[k] - 1e-9, -least)
            ends = compact.s[k] * found.u_low[k], compact.s[k] * found.u_high[k]
            assert adjoint.switching(found).low[k] == min(0.0, *ends)
            assert adjoint.switching(found).high[k] == max(0.0, *ends)
            one = adjoint.adjoints(replace(found, u_low=-inf, u_high=inf), layer)
            after = compact.layer != layer
            assert torch.isinf(one.u_low[after]).all()


@pytest.mark.parametrize("seed", [0, 1, 3, 7, 8, 10, 11, 14, 20, 21, 26, 28])
def test_a_sweep_written_out(seed, monkeypatch) -> None:
    """With dense matrices and margins of a thousandth: noise, reaches, who may switch, adjoints."""
    slack = 1e-3
    for module in (rounding, sweep):
        monkeypatch.setattr(module, "SLACK", slack)
    monkeypatch.setattr(sweep, "through", lambda _n, _s, _f, rows, crude: crude[0, rows])

    def far(compact, _chords, _region, rows, direction):  # all that is left is the first look
        return reach.UpperReach(compact.jacobian[rows], 0 * direction, 0 * direction + 1e30)

    monkeypatch.setattr(sweep, "upper", far)
    example = case(seed)
    network, region, swept = opened(example)
    compact, ratio = swept.compact, torch.finfo(example.x.dtype).eps / 2 / UNIT
    a = example.x[0].double()
    tangent, columns = torch.eye(len(a)).double(), torch.zeros(len(a), 0).double()
    size, moved, reached, carried = 5 * a.abs(), region.largest, region.largest, 0 * a
    masks = []
    for number, (stage, low) in enumerate(zip(network.stages[:-1], network.slopes, strict=True)):
        weight = stage.linear(torch.eye(stage.sizes[0]).double()).T
        offset = stage.value(torch.zeros(1, stage.sizes[0]).double())[0]
        absolute, z, margin = weight.abs(), weight @ a + offset, stage.margin
        fresh = margin * (absolute @ size + offset.abs())
        fresh = fresh + margin * ratio * (absolute @ (size + moved) + offset.abs())
        fresh = fresh + margin / UNIT * 2.0**-126 + margin * absolute @ reached
        noise = (fresh * (1 + slack) + absolute @ carried) * (1 + slack)
        tangent, columns = weight @ tangent, weight @ columns
        s = torch.where(z > 0, -1.0, 1.0).double()
        before = compact.most[compact.layer < number]
        others = (s.unsqueeze(1) * columns).clamp_min(0) @ before
        value = s * z + region.support(s.unsqueeze(1) * tangent) + others
        value = value + slack * (z.abs() + others) + noise * (1 + slack)
        own, places = compact.layer == number, (value >= 0).nonzero().flatten()
        assert torch.equal(swept.places[own], places)
        for name, each in {"z": z, "s": s, "noise": noise, "most": value}.items():
            same(getattr(compact, name)[own], each[places], 1e-7)
        same(compact.jacobian[own], tangent[places])
        same(compact.matrix[own][:, compact.layer < number], columns[places])
        assert not compact.matrix[own][:, compact.layer >= number].any()
        reached = (region.size(tangent) + columns.abs() @ before) * (1 + slack)
        reached[places] += compact.most[own]
        mask = torch.where(z > 0, torch.ones(()).double(), low)
        a, moved = z * mask, (reached + noise) * (1 + slack)
        size, carried = a.abs(), noise * mask
        switched = torch.zeros(len(z), len(places), dtype=torch.float64)
        switched[places, torch.arange(len(places))] = 1 - low
        tangent = mask.unsqueeze(1) * tangent
        columns = torch.cat([mask.unsqueeze(1) * columns, switched], 1)
        masks.append(mask)
    adjoints_written_out(network, swept, masks, slack)


def adjoints_written_out(
    network: Rectified, swept: sweep.Swept, masks: list[torch.Tensor], slack: float
) -> None:
    compact = swept.compact
    weights = [stage.linear(torch.eye(stage.sizes[0]).double()).T for stage in network.stages]
    margin = 4 * sum(stage.margin for stage in network.stages)
    v = torch.zeros(len(weights[-1])).double()
    v[0] = 1.0
    size = v
    for number in range(len(masks), 0, -1):
        own, low = compact.layer == number - 1, network.slopes[number - 1]
        places = swept.places[own]
        u, size = weights[number].T @ v, weights[number].abs().T @ size
        same(compact.u[own], (1 - low) * u[places])
        same(compact.adjoint_noise[own], margin * size[places] * (1 + slack))
        v, size = masks[number - 1] * u, masks[number - 1] * (size + u.abs())
        size[places] += torch.maximum(compact.u_high[own], -compact.u_low[own])
    same(swept.gradient, weights[0].T @ v)
    length = (weights[0].abs().T @ size).norm().item()
    noise = margin * length * (1 + slack)
    assert swept.compact.gradient_noise == pytest.approx(noise, rel=1e-9, abs=0)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_region_ends_where_exact_numbers_say(seed) -> None:
    """Limits in rational numbers, widened by roundings; closed where a value is at the end."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.float32 if seed % 2 else torch.float64
    x = torch.rand(1, 4, generator=generator, dtype=dtype)
    x[0, 0], x[0, 1] = 0.1, 0.9
    radius, unit = (1e-3, 0.4, 3.0)[seed % 3], torch.finfo(dtype).eps
    limited = ab.LpBall(radius, (2.0, math.inf)[seed % 2], low=x[0, 0].item(), high=x[0, 1].item())
    x = x.clamp(limited.low, limited.high)
    (region,) = regions(limited, x)
    assert Fraction(region.epsilon) >= Fraction(radius) * (1 + 15 * Fraction(unit))
    for i, value in enumerate(map(Fraction, x[0].tolist())):
        rounding = 3 * Fraction(unit) * (value + Fraction(radius))
        for end, said in ((limited.low, -region.low[i]), (limited.high, region.high[i])):
            room = min(abs(Fraction(end) - value), Fraction(radius))
            if room == 0:
                assert said == 0
            else:
                assert (
                    room + rounding
                    <= Fraction(said.item())
                    <= room * (1 + 99 * Fraction(unit)) + 9 * rounding
                )


def test_chords_are_above_what_they_stand_for() -> None:
    """At many points, in rational numbers, with ends at zero among them."""
    ends = [(-1.0, 0.7), (-0.3, 2.0), (0.0, 1.0), (0.0, 0.0), (-1.0, 0.0), (0.4, 0.9), (-1e-9, 1e9)]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    found = reach.extended(reach.Chords.none(len(ends)), torch.arange(len(ends)), low, high)
    for i, (least, most) in enumerate(ends):
        slope, start = Fraction(found.slope[i].item()), Fraction(found.low[i].item())
        assert slope <= 1
        assert found.most[i] == most
        assert start == min(Fraction(least), 0)
        for step in range(21):
            p = Fraction(least) + (Fraction(most) - Fraction(least)) * step / 20
            above = slope * (p - start)
            assert max(p, Fraction(0)) <= above <= max(most, 0) * (1 + Fraction(1, 10**8))


def known(**given) -> deviation.Flips:
    """What is proved of an example, if nothing is."""
    nothing = {"value": 0.0, "root": 0.0, "attained": 0.0, "neurons": 0, "nodes": 1}
    return deviation.Flips(**{**nothing, "exact": False, "stopped": False, **given})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [ab.Saliency, ab.InputXGradient, ab.IntegratedGradients])
def test_a_bound_counts_the_rounding_of_both_maps_that_are_compared(
    dtype, kind, monkeypatch
) -> None:
    """In rational numbers: 32 units of the map at x and of what it moves, and what x shows."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    attribution, x = kind(net.to(dtype).eval()), torch.tensor([[0.3, 2.0, 0.6], [1.0, 0.2, 3.0]])
    x, labels = x.to(dtype), torch.zeros(2, dtype=torch.long)
    proved = [known(value=0.25, root=0.75), known(value=1e-3, root=math.nan)]
    monkeypatch.setattr(certified_bound, "flips", lambda *_: next(given))
    right = certified_bound.mean_gradient
    for off in (0.0, 0.5):
        monkeypatch.setattr(
            certified_bound, "mean_gradient", lambda *asked, off=off: right(*asked) + off
        )
        given = iter(proved)
        made = ab.bound(attribution, x, ab.L2Ball(0.1), labels, claim="certified")
        unit = 32 * Fraction(torch.finfo(dtype).eps)
        for row, (each, path) in enumerate(zip(proved, paths(attribution, x), strict=True)):
            length = attribution(x, labels)[row].double().norm().item()
            wrong = (path.displacement * off).norm().item() if off else 0.0
            for value, said in ((each.value, made.euclidean), (each.root, made.values["root"])):
                if math.isnan(value):
                    assert said[row] == math.inf
                    continue
                least = Fraction(value) * (1 + unit) + unit * Fraction(length) + 4 * Fraction(wrong)
                least *= 1 - Fraction(torch.finfo(dtype).eps)  # of the length itself
                assert least <= Fraction(said[row].item())
                assert (
                    Fraction(said[row].item()) <= least * (1 + unit) + unit * Fraction(length) / 8
                )
            mean = sum(w * cases_gradient(net, point.to(dtype)) for _, w, point in path.points())
            steep = (mean + off).abs().max().item() if path.multiplied else 0.0
            assert made.xi.upper[row].item() == pytest.approx(steep, rel=1e-5)


def cases_gradient(net: torch.nn.Module, point: torch.Tensor) -> torch.Tensor:
    point = point.detach().requires_grad_()
    return torch.autograd.grad(net(point)[0, 0], point)[0].double()


@pytest.mark.parametrize("multiplied", [False, True])
@pytest.mark.parametrize(
    "said",  # value, attained, items, exact, stopped
    [
        (1.0, 1.0, 3, True, False),
        (1.0, 0.995, 3, False, False),
        (1.0, 0.5, 3, False, True),
        (1.0, 0.5, 0, None, False),
        (0.0, 0.0, 0, True, False),
    ],
)
def test_what_is_said_of_a_tree(multiplied, said, monkeypatch) -> None:
    """Exact: attained, or constant; stopped: more could be gained. All of it rounded outwards."""
    slack, (value, attained, items, exact, stopped) = 1e-9, said
    monkeypatch.setattr(deviation, "SLACK", slack)
    free = torch.arange(4) < 2
    first = SimpleNamespace(
        items=SimpleNamespace(neurons=list(range(items))), compact=SimpleNamespace(free=free)
    )
    tree = SimpleNamespace(value=value, attained=attained, leaves=[(-value, 0, first)], nodes=7)
    moving = SimpleNamespace(
        path=SimpleNamespace(multiplied=multiplied), grown=lambda _: (tree, first, 2.0)
    )
    found = deviation.Moving.branched(moving, None)
    assert found.value == value * (1 + slack)
    assert found.root == 2.0 * (1 + slack)
    assert (found.attained, found.neurons, found.nodes) == (attained, 2, 7)
    if exact is None:  # without items a gradient is constant, but a factor moves
        exact = not multiplied
    assert (found.exact, found.stopped) == (exact, stopped)


def test_what_is_said_to_be_attained_is_attained() -> None:
    """By the maps of the network in float64, of every kind of path."""
    generator = torch.Generator().manual_seed(1)
    for seed in (0, 1, 2, 3, 5, 8):
        example = case(seed)
        example = Case(example.net.double(), example.x.double(), example.ball)
        network, region, _ = opened(example)
        size = example.x.shape[1]
        for kind in (
            ab.Saliency(example.net),
            ab.InputXGradient(example.net),
            ab.IntegratedGradients(example.net, steps=3, baseline=0.3),
            ab.IntegratedGradients(example.net, steps=2, multiply_by_inputs=False),
        ):
            (path,) = paths(kind, example.x)
            effort = deviation.Effort(Limits(1, 600.0), 2**30, UNIT)
            moving = deviation.Moving(network, path, 0, region, effort)
            deltas = torch.randn(7, size, generator=generator).double() * example.ball.epsilon
            maps = kind(example.x + deltas, LABEL.expand(7)) - kind(example.x, LABEL)
            most = maps.norm(dim=1).max().item()
            assert moving._attain(deltas) == pytest.approx(most, rel=1e-9, abs=1e-12)
            assert moving._attain(deltas[:0]) == 0
            for number, node_at in enumerate(path.nodes):
                own = moving.own(number)
                asked = Fraction(node_at) * Fraction(region.epsilon)
                assert asked < Fraction(own.epsilon) < asked * (1 + 2 * Fraction(SLACK))
                points = path.base + node_at * (path.x + region.furthest(deltas) - path.base)
                there = points - path.base - node_at * (path.x - path.base)
                assert (there >= own.low - 1e-12).all()
                assert (there <= own.high + 1e-12).all()


def grown(seed: int) -> deviation.Tree:
    """A tree with its first node, of a network that has something to branch on."""
    network, region, swept = opened(case(seed, 2.0))
    (path,) = paths(ab.Saliency(case(seed, 2.0).net), case(seed, 2.0).x)
    effort = deviation.Effort(Limits(1, 600.0), 2**30, UNIT)
    moving = deviation.Moving(network, path, 0, region, effort)
    tree = deviation.Tree(
        region, lambda part: moving._bound(swept.gradient, [(1.0, part)]), lambda deltas: 0.0
    )
    tree.add(swept.compact, math.inf)
    return tree


def some_trees() -> list[int]:
    found = [seed for seed in range(60) if len((tree := grown(seed)).leaves) and tree.value > 0]
    return [seed for seed in found if len(grown(seed).leaves[0][2].items.neurons) > 3][:4]


def test_a_tree_grows_until_a_limit_and_no_further() -> None:
    """Nodes, seconds, a value that is small enough, what is attained: whichever comes first."""
    assert deviation.Tree(None, None, None).value == 0  # of no part in which anything is
    seeds = some_trees()
    assert len(seeds) == 4
    for seed in seeds:
        values = []
        for nodes in (1, 2, 4, 9):
            tree = grown(seed)
            tree.grow(Limits(nodes, 600.0))
            values.append(tree.value)
            left = bool(tree.leaves) and len(tree.leaves[0][2].items.neurons) > 0
            assert tree.nodes <= max(nodes, 1) + 1
            assert tree.nodes >= nodes or not left
        assert values == sorted(values, reverse=True)
        assert values[-1] < values[0]
        for goal, attained in ((values[1], 0.0), (0.0, values[1] / tree_module.CLOSE)):
            tree = grown(seed)
            tree.attained = attained
            tree.grow(Limits(9, 600.0, goal * (1 + 1e-12)))
            assert tree.value <= values[1] * (1 + 1e-9)
            assert tree.nodes <= 3
        hurried = grown(seed)
        hurried.grow(Limits(9, 0.0))
        assert hurried.nodes == 1
        first, before = hurried.leaves[0], hurried.value
        hurried.tighten(2 * before)
        assert hurried.value == before
        hurried.tighten(before / 2)
        assert hurried.value == before / 2
        norms = first[2].items.vectors.norm(dim=1).tolist()
        heaviest = first[2].items.neurons[norms.index(max(norms))]
        assert tree_module._heaviest(first[2]) == heaviest


def test_the_rounding_of_a_gradient_is_rounded_outwards(monkeypatch) -> None:
    """Where nothing can switch it is all there is: by as much as every other number."""
    seen = 0
    for seed in range(12):
        example = case(seed)
        example = replace(example, ball=example.ball.at_radius(1e-30))
        found = []
        for slack in (0.0, 1e-3):
            monkeypatch.setattr(sweep, "SLACK", slack)
            found.append(opened(example)[2].compact)
        if not any(map(len, found)):
            seen += found[0].gradient_noise > 0
            assert found[1].gradient_noise == pytest.approx(1.001 * found[0].gradient_noise)
    assert seen > 3


def test_ends_in_a_tree_are_those_of_its_worst_leaf() -> None:
    for seed in some_trees():
        tree = grown(seed)
        tree.grow(Limits(9, 600.0))
        size = tree.region.low.shape[0]
        along = torch.cat([torch.eye(size), torch.ones(1, size)]).double()
        low, high = tree.ends(along)
        each = [node.ends_along(leaf.compact, along) for _, _, leaf in tree.leaves]
        for row in range(len(along)):
            assert low[row] == min(ends[0][row] for ends in each)
            assert high[row] == max(ends[1][row] for ends in each)


def test_neurons_in_parts_are_those_at_once(monkeypatch) -> None:
    """Of what is above them, of their adjoints, and of all that a sweep adds up."""

    def close(one: torch.Tensor, other: torch.Tensor) -> None:
        room = 1e-6 * other.abs().max().item() if len(other) else 0.0
        torch.testing.assert_close(one, other, rtol=1e-6, atol=room)

    for region, compact, seed in deep()[:4]:
        chords, every = some_chords(compact, seed), torch.arange(len(compact))
        last = every[compact.layer == compact.layers()[-1]]
        asked = compact, chords, region, last, compact.s[last]
        whole, sums = reach.upper(*asked), adjoint.largest(compact, compact.matrix)
        network, _, swept = opened(case(seed, region.p))
        for most in (1, 2, len(last), len(compact)):
            for module in (reach, adjoint, sweep):
                monkeypatch.setattr(module, "_ROWS", most)
            parts = reach.upper(*asked)
            for name in ("slope", "constant", "value"):
                close(getattr(parts, name), getattr(whole, name))
            close(adjoint.largest(compact, compact.matrix), sums)
            again = opened(case(seed, region.p))[2].compact
            assert len(again) == len(swept.compact)
            for name in ("z", "u", "jacobian", "matrix", "most", "u_low", "u_high"):
                close(getattr(again, name), getattr(swept.compact, name))
        (path,) = paths(ab.Saliency(case(seed, region.p).net), case(seed, region.p).x)
        effort = deviation.Effort(Limits(1, 600.0), 2**30, UNIT)
        moving = deviation.Moving(network, path, 0, region, effort)
        deltas = region.furthest(compact.jacobian)
        furthest = moving._attain(deltas)
        for most in (1, 2, len(deltas)):
            monkeypatch.setattr(deviation, "_AT_ONCE", most)
            assert moving._attain(deltas) == pytest.approx(furthest, rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_factors_stretch_by_the_largest_or_by_the_box(p) -> None:
    """Up to p = 2 no factor gets more than the radius; beyond, only the box of limits is known."""
    scale = torch.tensor([0.5, 2.0, 0.0]).double()
    wide = Region(p, 0.3, scale, -0.3 * scale, 0.3 * scale)
    factors = torch.tensor([3.0, 1.0, 9.0]).double()
    box = (0.3 * scale * factors).norm().item()
    most = 0.3 * (scale * factors).max().item()
    assert most < box
    assert wide.stretched(factors) == pytest.approx(most if p <= 2 else box)
    narrow = Region(p, 0.3, scale, -0.01 * scale, 0.02 * scale)
    assert narrow.stretched(factors) == pytest.approx((0.02 * scale * factors).norm().item())


def test_rows_in_parts_are_those_at_once(monkeypatch) -> None:
    for region, compact, _ in deep():
        rows = compact.matrix[:, :1] * compact.jacobian
        whole = region.support(rows), region.size(rows)
        for most in (1, 2, len(rows) - 1, len(rows)):
            monkeypatch.setattr(region_module, "_ROWS", most)
            assert torch.equal(region.support(rows), whole[0])
            assert torch.equal(region.size(rows), whole[1])


def test_sizes_of_mean_gradients_are_rounded_outwards(monkeypatch) -> None:
    """The most of every component: that at x, and how far it moves."""
    slack = 1e-3
    monkeypatch.setattr(directions, "SLACK", slack)
    for seed in (1, 9):
        example = case(seed)
        network, region, _ = opened(example)
        effort = deviation.Effort(Limits(3, 600.0), 2**30, UNIT)
        for kind in (
            ab.InputXGradient(example.net),
            ab.IntegratedGradients(example.net, steps=3, baseline=0.3),
        ):
            (path,) = paths(kind, example.x)
            made = directions.Directions(deviation.Moving(network, path, 0, region, effort))
            low, high = made._gradient(torch.eye(example.x.shape[1]).double())
            mean = sum(w * network.gradients(point, 0)[0] for _, w, point in path.points())
            same(made._sizes, mean.abs() * (1 + slack) + torch.maximum(high, -low), 1e-9)


def test_the_unit_of_a_network_is_that_of_its_coarsest_numbers(monkeypatch) -> None:
    """On graphics cards that of TF32 where products are made in it."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    saliency, x = ab.Saliency(net.double()), torch.rand(1, 2)
    unit = certified_bound.evaluation_unit
    assert unit(saliency, x.double()) == 2.0**-53
    assert unit(saliency, x) == 2.0**-24
    net[2].float()
    assert unit(saliency, x.double()) == 2.0**-24
    net.double()
    net.float()
    card = SimpleNamespace(
        is_floating_point=lambda: True, dtype=torch.float32, device=torch.device("cuda")
    )
    for by_matrix, by_cudnn in itertools.product([False, True], repeat=2):
        matrix, conv = (
            SimpleNamespace(fp32_precision="tf32" if fast else "ieee")
            for fast in (by_matrix, by_cudnn)
        )
        monkeypatch.setattr(torch.backends, "cuda", SimpleNamespace(matmul=matrix))
        monkeypatch.setattr(torch.backends, "cudnn", SimpleNamespace(conv=conv))
        assert unit(saliency, card) == (2.0**-11 if by_matrix or by_cudnn else 2.0**-24)
        assert unit(saliency, x) == 2.0**-24


def test_items_of_a_path_are_worth_bounding_together(monkeypatch) -> None:
    """One perturbation for all switches: less than one for each, of one point and of several."""
    monkeypatch.setattr(deviation, "BRANCHED", 0)
    for seed in (0, 2, 6):  # not if a single node may be bounded
        example = case(seed, 2.0)
        for steps in (1, 3):
            kind = ab.IntegratedGradients(example.net, steps=steps, multiply_by_inputs=False)
            found = deviated(example, kind, 1)
            assert found.value == pytest.approx(found.root, rel=1e-8)
    for steps in (1, 3):
        gains = []
        for seed in range(12):
            example = case(seed, 2.0)
            kind = ab.IntegratedGradients(example.net, steps=steps, multiply_by_inputs=False)
            found = deviated(example, kind, 6)
            assert found.value <= found.root * (1 + 1e-6)
            gains.append(found.value / max(found.root, 1e-30) if found.root else 1.0)
        assert min(gains) < 0.9


@pytest.mark.parametrize(("steps", "branched"), [(1, 0), (1, 150), (3, 150)])
def test_out_of_time_it_says_so_and_holds(steps, branched, monkeypatch) -> None:
    """Of one point with all items together or branched on, and of several points."""
    monkeypatch.setattr(deviation, "BRANCHED", branched)
    worse = []
    for seed in range(12):
        example = case(seed, 2.0)
        kind = ab.IntegratedGradients(example.net, steps=steps, multiply_by_inputs=False)
        full, hurried = deviated(example, kind, 9), deviated(example, kind, 9, 0.0)
        known = max(full.attained, hurried.attained)
        assert known <= hurried.value * (1 + 1e-9)
        assert full.value <= hurried.value * (1 + 1e-9)
        assert hurried.value <= hurried.root * (1 + 1e-6)
        if hurried.value > 1.001 * full.value:
            assert hurried.stopped
            worse.append(hurried.value / full.value)
        assert steps == 1 or not full.stopped
    assert max(worse) > 1.01


@pytest.mark.parametrize("slack", [0.0, 1e-3])
def test_an_update_counts_what_it_adds_up(slack, monkeypatch) -> None:
    """With roundings of a thousandth: of both terms of every sum, and the noise that is carried."""
    update, up = 1e-3, 1 + slack
    monkeypatch.setattr(compact_form, "_UPDATE", update)
    for module in (compact_form, rounding):
        monkeypatch.setattr(module, "SLACK", slack)
    for region, compact, _ in deep():
        count = len(compact)
        reached = region.size(compact.jacobian)
        each = compact.z.abs() + reached + compact.matrix.abs() @ compact.most
        steep = compact.u.abs() + compact.steepest @ compact.matrix.abs()
        length = compact.jacobian.norm(dim=1)
        for n in range(count):
            if not compact.free[n]:
                continue
            after = compact.switched(n, region)
            far, back = compact.matrix[:, n].abs(), compact.matrix[n].abs()
            noise = compact.noise + far * compact.noise[n] + update * (each + far * each[n])
            same(after.noise, noise * up, 1e-10)
            noise = compact.adjoint_noise + back * compact.adjoint_noise[n]
            same(after.adjoint_noise, (noise + update * (steep + back * steep[n])) * up, 1e-10)
            sums = ((length + far * length[n]) * compact.steepest).sum() + compact.shift.norm()
            sums = sums + length[n] * compact.u[n].abs()
            noisy = compact.gradient_noise + length[n] * compact.adjoint_noise[n] + update * sums
            assert after.gradient_noise == pytest.approx(noisy.item() * up, rel=1e-10)


def test_roundings_of_sums_are_on_the_outside(monkeypatch) -> None:
    """Where SLACK is a thousandth every end is further out than where it is nothing, by as much."""
    slack = 1e-3

    def both(module, work) -> tuple:
        found = []
        for size in (0.0, slack):
            monkeypatch.setattr(module, "SLACK", size)
            found.append(work())
        monkeypatch.setattr(module, "SLACK", SLACK)
        return tuple(found)

    generator = torch.Generator().manual_seed(1)
    for region, compact, seed in deep():
        chords, size = some_chords(compact, seed), compact.jacobian.shape[1]
        along = torch.randn(4, size, generator=generator, dtype=torch.float64)
        for work in (
            lambda r=region, a=along: r.support(a),
            lambda r=region, a=along: r.size(a),
            lambda r=region, a=along: torch.tensor(r.stretched(a[0].abs()), dtype=torch.float64),
        ):
            exact, wide = both(rounding, work)
            same(wide, exact * (1 + slack), 1e-9)
        for layer in compact.layers():
            rows = (compact.layer == layer).nonzero().flatten()
            asked = compact, chords, region, rows, compact.s[rows]
            exact, wide = both(reach, lambda a=asked: reach.upper(*a))
            terms = compact.z[rows].abs() + compact.noise[rows]
            terms = terms + region.size(compact.jacobian[rows])
            terms = terms + (compact.matrix[rows].abs() * compact.free) @ chords.most
            assert (wide.value >= exact.value + slack * terms * (1 - 1e-9)).all()
            assert (wide.value <= exact.value + 100 * slack * (terms + 100)).all()
        if bool((chords.most > 0).all()):
            rows = torch.arange(len(compact))
            exact, wide = both(reach, lambda c=chords, r=rows: reach.extended(c, r, c.low, c.most))
            same(wide.slope, (exact.slope * (1 + slack)).clamp_max(1.0))
        rows = torch.randn(3, len(compact), generator=generator, dtype=torch.float64)
        exact, wide = both(adjoint, lambda c=compact, r=rows: adjoint.largest(c, r))
        ends = adjoint.switching(compact)
        terms = rows.abs() @ torch.maximum(ends.high, -ends.low)
        assert (wide >= exact + slack * terms.clamp_max(exact.abs().max()) * 0.2).all()
        loose = replace(compact, u_low=compact.u_low - 9, u_high=compact.u_high + 9)
        exact, wide = both(adjoint, lambda c=loose: adjoint.adjoints(c))
        own, fixed = compact.free, compact.u.abs() * slack
        assert (wide.u_low <= exact.u_low - fixed * own * 0.99).all()
        assert (wide.u_high >= exact.u_high + fixed * own * 0.99).all()
        exact, wide = both(node, lambda c=compact, a=along: node.ends_along(c, a))
        noise = along.norm(dim=1) * compact.gradient_noise
        margin = slack * (along.abs() @ compact.shift.abs() + noise)
        same(exact[0] - wide[0] + 1.0, margin + 1.0, 1e-9)
        same(wide[1] - exact[1] + 1.0, margin + 1.0, 1e-9)


def test_what_refutes_one_inequality_with_others_is_a_proof(monkeypatch) -> None:
    """A margin of a tenth counts every term; and what is refuted is so on a grid."""
    generator = torch.Generator().manual_seed(2)
    seen = set()
    for p, margin in itertools.product((2.0, math.inf), (farkas.MARGIN, 0.1)):
        monkeypatch.setattr(farkas, "MARGIN", margin)
        for _ in range(20):
            slope = torch.randn(3, 2, generator=generator, dtype=torch.float64)
            threshold = 0.8 * torch.rand(3, generator=generator, dtype=torch.float64)
            ones = torch.ones(2, dtype=torch.float64)
            region = Region(p, 0.7, ones, -0.7 * ones, 0.6 * ones)
            fixed, more = (slope[:2], threshold[:2]), (slope[2:], threshold[2:])
            may = bool(farkas.without(region, fixed, *more))
            y = farkas._multipliers(region, fixed, *more)
            assert may != bool(farkas.proof(region, slope, threshold, y))
            gain, combined = (y @ threshold).item(), y @ slope
            terms = (y @ (threshold.abs() + region.size(slope))).item()
            assert may == (gain <= region.support(combined).item() + margin * terms)
            side = torch.linspace(-0.7, 0.6, 41, dtype=torch.float64)
            grid = torch.cartesian_prod(side, side)
            grid = grid[torch.linalg.vector_norm(grid, ord=p, dim=1) <= 0.7]
            somewhere = bool((grid @ slope.T >= threshold).all(1).any())
            assert may or not somewhere
            seen.add((may, somewhere))
    assert len(seen) == 3


def test_a_proof_counts_the_size_of_every_term(monkeypatch) -> None:
    """For any multipliers, thresholds below zero among them, with a margin of a tenth of all."""
    monkeypatch.setattr(farkas, "MARGIN", 0.1)
    generator = torch.Generator().manual_seed(5)
    seen = set()
    for p in (2.0, math.inf):
        ones = torch.ones(2, dtype=torch.float64)
        region = Region(p, 0.7, ones, -0.7 * ones, 0.6 * ones)
        for _ in range(200):
            slope = torch.randn(4, 2, generator=generator, dtype=torch.float64)
            threshold = torch.randn(4, generator=generator, dtype=torch.float64)
            y = torch.rand(2, 3, generator=generator, dtype=torch.float64)
            monkeypatch.setattr(farkas, "_multipliers", lambda *_, y=y: y)
            may = farkas.without(region, (slope[:2], threshold[:2]), slope[2:], threshold[2:])
            for row, said in enumerate(may.tolist()):
                rows = torch.tensor([0, 1, 2 + row])
                a, b = slope[rows], threshold[rows]
                terms = y[row] @ (b.abs() + region.size(a))
                gain, most = y[row] @ b, region.support((y[row] @ a)[None])[0]
                assert said == bool(gain <= most + 0.1 * terms)
                proved = farkas.proof(region, a, b, y[row : row + 1])
                assert said != bool(proved)
                seen.add(said)
    assert len(seen) == 2


def test_multipliers_that_are_none_prove_nothing(monkeypatch) -> None:
    """Whatever a search finds: a negative multiplier turns its inequality round."""
    ones = torch.ones(2, dtype=torch.float64)
    region = Region(2.0, 1.0, ones, -ones, ones)
    slope, threshold = torch.eye(2, dtype=torch.float64), torch.tensor([0.5, -5.0]).double()
    assert not farkas.infeasible(region, slope, threshold)  # (0.5, 0) is there
    for y in ([1.0, -1.0], [0.0, -1.0], [math.nan, 1.0]):
        wrong = torch.tensor([y], dtype=torch.float64)
        assert not farkas.proof(region, slope, threshold, wrong)
        monkeypatch.setattr(farkas, "_multipliers", lambda *_, wrong=wrong: wrong)
        assert not farkas.infeasible(region, slope, threshold)
        fixed = slope[:1], threshold[:1]
        assert farkas.without(region, fixed, slope[1:], threshold[1:])
    slope = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double()
    right = torch.ones(1, 2, dtype=torch.float64)
    assert farkas.proof(region, slope, torch.tensor([0.1, 0.1]).double(), right)


def test_noise_through_derivatives_is_that_of_dense_ones(monkeypatch) -> None:
    """What is disturbed below times the size of the derivative by it; no more than crudely."""
    slack = 1e-3
    monkeypatch.setattr(rounding, "SLACK", slack)
    generator = torch.Generator().manual_seed(0)
    for seed in (0, 3, 7, 8, 10, 11):
        example = case(seed)
        network = unroll(example.net, tuple(example.x.shape[1:]))
        widths = network.widths
        values = switched_at(network, example.x.double())
        slopes = [
            torch.where(z > 0, 1.0, slope).double()
            for z, slope in zip(values[:-1], network.slopes[:-1], strict=True)
        ]
        fresh = [torch.rand(1, n, generator=generator, dtype=torch.float64) for n in widths]
        rows = torch.arange(widths[-1]).flip(0)[: 1 + seed % 3]
        matrix, total = torch.eye(widths[-1], dtype=torch.float64), fresh[-1][0].clone()
        for layer in range(len(widths) - 1, 0, -1):
            stage = network.stages[layer]
            weight = stage.linear(torch.eye(stage.sizes[0]).double()).T
            matrix = matrix @ weight @ torch.diag(slopes[layer - 1][0])
            total += matrix.abs() @ fresh[layer - 1][0]
        crude = 3 * total.unsqueeze(0)
        found = through(network, slopes, fresh, rows, crude)
        same(found, total[rows] * (1 + slack), 1e-8)
        margin = sum(stage.margin for stage in network.stages[:-1])
        huge = through(network, slopes, fresh, rows, 1e14 * crude) - total[rows] * (1 + slack)
        assert (huge >= margin * 1e14 * crude[0, rows]).all()
        assert (huge <= 3 * margin * 1e14 * crude[0, rows] + 1e-6).all()
        same(through(network, slopes, fresh, rows, crude / 9), crude[0, rows] / 9)


def test_noise_of_the_first_layers_is_what_their_sums_can_lose() -> None:
    """Here, as the network is evaluated, and of products with what moves; carried on by |W|."""
    for seed in (0, 1, 3, 7, 8, 10, 11, 14):
        example = case(seed)
        network, region, swept = opened(example)
        ratio = torch.finfo(example.x.dtype).eps / 2 / UNIT
        x, moved = example.x[0].double(), region.largest
        size, reached, carried = 5 * x.abs(), moved, 0 * x
        compact = swept.compact
        for number, stage in enumerate(network.stages[:2]):
            if number == len(network.slopes):
                break
            weight = stage.linear(torch.eye(stage.sizes[0]).double()).T
            offset = stage.value(torch.zeros(1, stage.sizes[0]).double())[0]
            z, absolute = weight @ x + offset, weight.abs()
            lost = absolute @ (size + ratio * (size + moved) + reached)
            lost = stage.margin * (lost + (1 + ratio) * offset.abs()) + absolute @ carried
            own = compact.layer == number
            same(compact.noise[own], lost[swept.places[own]], 1e-6)
            mask = torch.where(z > 0, 1.0, network.slopes[number]).double()
            if number == 0:
                reached = region.size(weight)
                reached[swept.places[own]] += compact.most[own]
                moved, carried = reached + lost, lost * mask
            x = z * mask
            size = x.abs()


def test_rounding_of_the_deviation_is_on_the_outside(monkeypatch) -> None:
    slack, asked = 1e-3, []
    right = Region.stretched
    monkeypatch.setattr(
        Region, "stretched", lambda self, sizes: asked.append(sizes) or right(self, sizes)
    )
    tried = 0
    for seed in range(8):
        example = case(seed)
        for kind, more in (
            (ab.Saliency, {}),
            (ab.InputXGradient, {}),
            (ab.IntegratedGradients, {"steps": 2}),
        ):
            found = []
            for each in (0.0, slack):
                monkeypatch.setattr(deviation, "SLACK", each)
                found.append(deviated(example, kind(example.net, **more), 1))
            assert found[1].value >= found[0].value * (1 + slack)
            assert found[1].root >= found[0].root * (1 + slack) ** 2 * (1 - 1e-9)
        if not found[0].neurons:
            continue
        tried += 1
        # The factor x - baseline: times the largest that each gradient can be.
        monkeypatch.setattr(deviation, "SLACK", slack)
        _, region, swept = opened(example)
        (path,) = paths(ab.InputXGradient(example.net), example.x)
        effort = deviation.Effort(Limits(1, 600.0), 2**30, torch.finfo(example.x.dtype).eps / 2)
        network = unroll(example.net, tuple(example.x.shape[1:]))
        moving = deviation.Moving(network, path, 0, region, effort)
        swept = moving.swept(0)
        root = node.node_of(swept.compact, moving.own(0))
        down = -0.3 * swept.gradient.abs() - 0.1  # as of neurons that surely switch
        root = replace(root, compact=replace(root.compact, shift=down))
        asked.clear()
        moving._bound(swept.gradient, [(1.0, root)])
        g, shift, items = swept.gradient, root.compact.shift, root.items.vectors
        ends = [g + shift + end.sum(0) for end in (items.clamp_max(0), items.clamp_min(0))]
        sizes = torch.maximum(*(end.abs() for end in ends))
        terms = g.abs() + shift.abs() + items.abs().sum(0)
        same(asked[0], sizes + slack * terms + root.compact.gradient_noise, 1e-9)
    assert tried > 2


def test_ends_along_directions_are_rounded_outwards(monkeypatch) -> None:
    slack = 1e-3
    for seed in (1, 9):
        example = case(seed)
        size = example.x.shape[1]
        network, region, _ = opened(example)
        effort = deviation.Effort(Limits(3, 600.0), 2**30, torch.finfo(example.x.dtype).eps / 2)
        for steps, multiplied in ((3, False), (1, True)):
            kind = ab.IntegratedGradients(example.net, steps=steps, multiply_by_inputs=multiplied)
            (path,), found = paths(kind, example.x), []
            for each in (0.0, slack):
                monkeypatch.setattr(directions, "SLACK", each)
                eye = torch.eye(size, dtype=torch.float64)
                found.append(directions.along(network, path, 0, region, effort, eye))
            (low, high), (wide_low, wide_high) = found
            margin = 0 * high
            if steps > 1 and not multiplied:
                margin = slack * torch.maximum(high, -low)
            assert (low - wide_low >= margin * (1 - 1e-9)).all()
            assert (wide_high - high >= margin * (1 - 1e-9)).all()
            assert (wide_high - wide_low <= (high - low) * 1.1 + 1.0).all()


#: A network that shows it.
QUIET = {"noise": 1, "adjoint_noise": 1, "gradient_noise": 0}


@pytest.mark.parametrize("name", QUIET)
def test_noise_that_is_left_out_is_caught(name, monkeypatch) -> None:
    right = sweep.adjoints

    def quiet(compact: Compact, *asked) -> Compact:
        if name == "adjoint_noise":  # before ends are known that rest on it
            compact = replace(compact, adjoint_noise=0 * compact.adjoint_noise)
        return right(compact, *asked)

    monkeypatch.setattr(sweep, "adjoints", quiet)
    example = case(QUIET[name])
    network, region, swept = opened(example, rough=True)
    less = replace(swept.compact, **{name: 0 * getattr(swept.compact, name)})
    assert not holds(example, network, region, replace(swept, compact=less))


def holds(example: Case, network: Rectified, region: Region, swept: sweep.Swept) -> bool:
    """Whether all that is enclosed is so on a grid: in the ball, and where one neuron is fixed."""
    deltas = example.deltas.double()
    values = switched_at(network, example.x.double() + deltas)
    moved = network.gradients(example.x.double() + deltas, 0) - swept.gradient
    whole = swept.compact
    rows = [*zip(whole.layer.tolist(), swept.places.tolist(), whole.z > 0, strict=True)]
    switched = [(values[layer][:, place] > 0) != on for layer, place, on in rows]
    adjoints = adjoints_at(network, values)
    u = [adjoints[layer][:, place] for layer, place, _ in rows]
    for neuron, each in enumerate(u):
        low, high = whole.u_low[neuron] - 1e-12, whole.u_high[neuron] + 1e-12
        if not bool(((each >= low) & (each <= high)).all()):
            return False
    parts = [(whole, torch.ones(len(deltas), dtype=torch.bool))]
    for neuron in whole.free.nonzero().flatten().tolist()[:3]:
        kept, turned = node.parts(whole, neuron, region)
        parts += [(kept, ~switched[neuron]), (turned, switched[neuron])]
    return all(
        holds_in(part, region, (deltas[own], moved[own], [each[own] for each in switched]))
        for part, own in parts
        if bool(own.any())
    )


def holds_in(part: Compact, region: Region, there: tuple) -> bool:
    deltas, moved, switched = there
    found = node.node_of(part, region)
    if found.empty:
        return False
    said = [bool((deltas @ found.slope.T >= found.threshold - 1e-12).all())]
    items, free = found.items, found.compact.free.tolist()
    for item, neuron in enumerate(items.neurons.tolist()):
        along = (deltas @ items.slope[item])[switched[neuron]]
        said.append(bool((along >= items.threshold[item] - 1e-12).all()))
    # What was found not to switch, or to have switched, has not, or has.
    for neuron, (can, known) in enumerate(zip(free, found.compact.state.tolist(), strict=True)):
        if not can:
            said.append(bool((switched[neuron] == (known == SWITCHED)).all()))
    size = deltas.shape[1]
    pairs = torch.eye(size) - torch.roll(torch.eye(size), 1, 0)
    along = torch.cat([torch.eye(size), pairs]).double()
    low, high = node.ends_along(found.compact, along)
    said.append(bool((moved @ along.T >= low - 1e-12).all()))
    said.append(bool((moved @ along.T <= high + 1e-12).all()))
    return all(said)


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
