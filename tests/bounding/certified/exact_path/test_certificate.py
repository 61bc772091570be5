"""The certificate against dense samples of tiny networks; every step broken once, and caught."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attribound as ab
import laws
from attribound.attributions.exact.piecewise import piecewise
from attribound.balls import enclosure
from attribound.basics.rounding import SLACK, UNIT
from attribound.bounding.certified import quadratic
from attribound.bounding.certified.exact_path import bound as exact_bound
from attribound.bounding.certified.exact_path import (
    certificate,
    certify_exact,
    flips,
    is_exact,
    items,
    norm,
    path_ball,
    pieces,
    without_offsets,
)
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attributions.exact import reference
from bounding.certified import reference as reference_of_proofs
from bounding.certified.exact_path import tiny


@pytest.mark.parametrize("seed", range(8))
def test_no_sample_moves_further(seed) -> None:
    of = tiny.case(seed)
    found = tiny.certificate(of)
    assert not tiny.violated(of, found)
    torch.testing.assert_close(found.map, of.clean[0], rtol=0, atol=1e-12)
    assert math.isfinite(found.value)


@pytest.mark.parametrize("radius", [None, 1e-2, 1e-5])
@pytest.mark.parametrize("seed", [0, 3, 6, 12, 13, 16])
def test_all_holds_on_a_machine_with_four_digits(seed, radius) -> None:
    """Whatever rounding is, its size is stated: so all holds where it is enormous.

    The scores at x are then wrong themselves: their ends have to say so.
    """
    of = tiny.case(seed, radius)
    assert not tiny.violated(of, tiny.certificate(of, rough=True))
    assert not tiny.wrongly_enclosed(of)


@pytest.mark.parametrize(("name", "seed"), [("error", 6), ("adjoint_error", 0)])
def test_errors_that_are_left_out_are_caught_there(name, seed) -> None:
    def broken(found: pieces.Pieces) -> pieces.Pieces:
        less = tuple(replace(each, **{name: 0 * getattr(each, name)}) for each in found.layers)
        return replace(found, layers=less)

    assert tiny.wrongly_enclosed(tiny.case(seed, 1e-5), broken)


def test_scores_that_are_said_to_be_exact_are_caught_there(monkeypatch) -> None:
    right = certificate.pieces
    monkeypatch.setattr(
        certificate,
        "pieces",
        lambda *asked: replace(p := right(*asked), mean_error=0 * p.mean_error),
    )
    of = tiny.case(3)
    assert tiny.violated(of, tiny.certificate(of, rough=True))


@pytest.mark.parametrize("cube", [False, True])
def test_pairs_and_directions_are_those_of_their_worst_points(cube) -> None:
    """What is said of ``c + M v + H s + rest t`` is so, and no more than that, at its ends."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    size, proved, open_ = 4, 0, 0
    for _ in range(30):
        centre, matrix, columns = 0.1 * draw(size), 0.1 * draw(size, 3), 0.1 * draw(size, 2)
        rest, error, scores = 0.1 * draw(size).abs(), 0.1 * draw(size).abs(), draw(size)
        pairs = certificate._Pairs(centre, matrix, columns, rest, error, cube)

        def furthest(along, matrix=matrix, centre=centre, columns=columns, rest=rest):
            row = along @ matrix
            v = row.sign() if cube else row / row.norm()
            return centre + matrix @ v + columns @ (along @ columns).sign() + rest * along.sign()

        along = draw(6, size)
        low, high = pairs.along(along)
        for row, least, most in zip(along, low, high, strict=True):
            assert most.item() == pytest.approx((row @ furthest(row)).item(), rel=1e-6)
            assert least.item() == pytest.approx((row @ furthest(-row)).item(), rel=1e-6)
            assert most >= row @ furthest(row)
            assert least <= row @ furthest(-row)
        for i, j in itertools.permutations(range(size), 2):
            for sign, other in itertools.product((1.0, -1.0), repeat=2):
                ahead = sign * torch.eye(size)[i].double() - other * torch.eye(size)[j].double()
                worst = ahead @ (scores + furthest(-ahead)) - error[i] - error[j]
                above = bool(pairs._above(scores, i, sign, other)[j])
                assert above == (worst.item() > 0), "no such margin is near zero"
                proved, open_ = proved + above, open_ + (not above)
    assert min(proved, open_) > 100


@pytest.mark.parametrize("cube", [False, True])
def test_margins_of_pairs_and_directions_are_as_large_as_their_terms(cube, monkeypatch) -> None:
    """Of sums of signed numbers the margin is relative to what was added up."""
    generator = torch.Generator().manual_seed(2)
    slack = 1e-3

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    for _ in range(10):
        centre, matrix, columns = draw(4), draw(4, 3), draw(4, 2)
        rest, error, scores = draw(4).abs(), 0.1 * draw(4).abs(), 9 * draw(4)
        pairs = certificate._Pairs(centre, matrix, columns, rest, error, cube)
        along = draw(6, 4)
        monkeypatch.setattr(certificate, "SLACK", 0.0)
        low, high = pairs.along(along)
        monkeypatch.setattr(certificate, "SLACK", slack)
        wide_low, wide_high = pairs.along(along)
        terms = along.abs() @ (centre.abs() + matrix.abs().sum(1) + columns.abs().sum(1))
        margin = slack * (terms + (high - low) / 2)
        tiny.close(low - wide_low, margin, 1e-9)
        tiny.close(wide_high - high, margin, 1e-9)
        monkeypatch.setattr(certificate, "SLACK", 0.0)
        for i, j in itertools.permutations(range(4), 2):
            ahead = torch.zeros(1, 4, dtype=torch.float64)
            ahead[0, i], ahead[0, j] = 1.0, -1.0
            low, high = pairs.along(ahead)
            wide = (high - low).item() / 2 + (error[i] + error[j]).item()
            gap = (ahead @ (scores + centre)).item() - wide
            size = wide + (scores.abs() + centre.abs())[[i, j]].sum().item()
            for share, proved in ((0.9, False), (1.1, True)):
                moved = scores.clone()
                moved[i] -= gap - share * slack * size  # the gap is that share of the margin
                size_now = wide + (moved.abs() + centre.abs())[[i, j]].sum().item()
                moved[i] += share * slack * (size_now - size)
                monkeypatch.setattr(certificate, "SLACK", slack)
                assert bool(pairs._above(moved, i, 1.0, 1.0)[j]) == proved
                monkeypatch.setattr(certificate, "SLACK", 0.0)


@pytest.mark.parametrize("seed", [1, 2, 5, 7, 10, 14, 18, 19])
def test_in_other_units_all_is_the_same(seed, monkeypatch) -> None:
    """Inputs, neurons and logits in any unit: every number is in the unit that it should be in."""
    monkeypatch.setattr(norm, "_STEPS", 5)
    of = tiny.case(seed)
    units = reference_of_proofs.some_units(of.net, seed)
    x, out, neurons = units[0][0], units[-1][0], units[1:-1]
    net = reference_of_proofs.in_units(of.net, units)
    ball = replace(of.ball, epsilon=of.ball.epsilon * x.item())
    other = replace(of, net=net, x=of.x * x, ball=ball)
    (found, moved, kept), (again, moved_again, kept_again) = map(tiny.opened, (of, other))
    mean = out / x
    path = {"start": 1, "end": 1, "away": x, "mean": mean, "mean_error": mean}
    tiny.agree(found, again, path)
    for number, unit in enumerate(neurons):
        u, row = out / unit, unit / x
        at = {"on": 1, "low": unit, "high": unit, "error": unit, "run": 1, "row_error": row}
        at |= {"rows": row.unsqueeze(1), "adjoint": u, "adjoint_error": u}
        tiny.agree(found.layers[number], again.layers[number], at)
        reaches = found.layers[number].reach, again.layers[number].reach
        for reach, reach_again, before in zip(*reaches, neurons[:number], strict=True):
            tiny.close(reach * (unit.unsqueeze(1) / before), reach_again)
        at = {"radius": unit, "down": unit, "up": unit, "can": 1, "low": u, "high": u}
        tiny.agree(moved[number], moved_again[number], at)
        cell, neuron = moved[number].can.nonzero(as_tuple=True)
        key = (found.layers[number].run[cell] * len(unit) + neuron).unique()
        t = unit[key % len(unit)]
        w, row = out / t, t / x
        at = {"rows": row.unsqueeze(1), "row_error": row, "radius": t, "slope": w / t}
        at |= dict.fromkeys(("low", "high", "least", "most"), w)
        at |= {"constant": w**2, "growth": (w / t) ** 2}
        tiny.agree(kept[number], kept_again[number], at)
    proved, proved_again = tiny.certificate(of), tiny.certificate(other)
    score = out if of.multiplied else mean
    tiny.agree(proved, proved_again, {"map": score, "low": score, "high": score})
    assert proved_again.value == pytest.approx(proved.value * score.item(), rel=1e-6)


@pytest.mark.parametrize(("seed", "rough"), [*itertools.product((1, 2, 13, 21), (0, 1))])
def test_parts_are_those_of_loops_over_cells_and_neurons(seed, rough, monkeypatch) -> None:
    """Neither looser than that nor, but for rounding, tighter; errors are what adds up."""
    monkeypatch.setattr(pieces, "_GRID", 5)
    of = tiny.case(seed)
    found, moved, kept = tiny.opened(of, rough=bool(rough))
    network = piecewise(of.net, tuple(of.x.shape[1:]))
    margins = sum(
        s.margin for s in (reference_of_proofs.roughened(network) if rough else network).stages
    )
    assert 4 * margins <= found.margin <= 12 * margins
    cells, off = tiny.slow_layers(network, found, of.x), 0.05 if rough else 1e-9
    for k, cell in enumerate(cells):
        for layer, slow in zip(found.layers, cell[:-1], strict=True):
            if rough and not torch.equal(layer.on[k], slow.on):
                break  # another piece, which is as good
            run = layer.run[k]
            assert torch.equal(layer.on[k], slow.on)
            assert ((layer.low[k] - slow.low).abs() <= layer.error[k]).all()
            assert ((layer.high[k] - slow.high).abs() <= layer.error[k]).all()
            assert ((layer.rows[run] - slow.rows).abs().sum(1) <= layer.row_error).all()
            assert ((layer.adjoint[k] - slow.adjoint).abs() <= layer.adjoint_error).all()
            tiny.close(layer.error[k], slow.error, rtol=off)
            tiny.agree(layer, slow, {"row_error": 1, "adjoint_error": 1}, rtol=1e-9)
            for one, other in zip(layer.reach, slow.reach, strict=True):
                tiny.close(one[run], other, off, off)
    if not rough:
        lengths = (found.end - found.start).unsqueeze(1)
        mean = (lengths * torch.stack([cell[-1].gradient for cell in cells])).sum(0)
        tiny.close(found.mean, mean, 1e-12, 1e-14)
    summed = len(found.start) * UNIT + found.margin
    assert (found.mean_error >= summed * cells[0][-1].size).all()
    assert (found.mean_error <= 5 * summed * cells[0][-1].size).all()
    names = dict.fromkeys(("radius", "up", "down", "can", "low", "high"), 1)
    for layer, slow in zip(moved, tiny.slow_flips(found, of.ball), strict=True):
        tiny.agree(layer, slow, names, 1e-6, 1e-7)
    for number, own in enumerate(kept):
        slow = tiny.in_size(tiny.slow_items(found, number, moved[number]))
        size = found.layers[number].adjoint.abs().max().item()
        tiny.close(tiny.in_size(own), slow, 1e-6, 1e-6 * size)


@pytest.mark.parametrize("seed", [1, 2, 13])
def test_a_baseline_is_as_good_as_zero(seed, monkeypatch) -> None:
    """Moved together with the input and the first biases it changes nothing but rounding."""
    monkeypatch.setattr(norm, "_STEPS", 5)
    of = tiny.case(seed)
    base = torch.linspace(-0.5, 1.0, of.x.shape[1], dtype=torch.float64).unsqueeze(0)
    net = copy.deepcopy(of.net)
    net[0].bias.data -= net[0].weight.data @ base[0]
    network, found = piecewise(net, tuple(of.x.shape[1:])), tiny.opened(of)[0]
    moved = pieces.pieces(network, base, base + of.x, 0)
    tiny.agree(moved, found, dict.fromkeys(("start", "end", "away", "mean"), 1), 1e-9, 1e-12)
    for layer, at_zero in zip(moved.layers, found.layers, strict=True):
        tiny.agree(layer, at_zero, dict.fromkeys(("low", "high", "rows"), 1), 1e-9, 1e-12)
    entered = 8 * UNIT * (base.abs() + (base + of.x).abs()) @ net[0].weight.data.abs().T
    assert (moved.layers[0].error >= entered).all()
    path = certificate.IntegrationPath(base, base + of.x, 0, of.multiplied)
    proved, at_zero = certificate.certify_path(network, path, of.ball), tiny.certificate(of)
    tiny.agree(proved, at_zero, dict.fromkeys(("map", "low", "high"), 1), 1e-6, 1e-9)
    assert proved.value == pytest.approx(at_zero.value, rel=1e-6)


def test_residuals_stay_in_their_ends_and_below_their_growth() -> None:
    """Of any bounds on pieces of t: w - slope t, and its square."""
    generator = torch.Generator().manual_seed(0)
    of = tiny.case(1)
    network = piecewise(of.net, (2,) if of.x.shape[1] == 2 else (3,))
    layer = pieces.pieces(network, torch.zeros_like(of.x), of.x, 0).layers[0]
    which = torch.zeros(5, dtype=torch.long), torch.arange(5)
    edges = torch.linspace(-1, 1, 9, dtype=torch.float64) * torch.rand(5, 1).double()
    low = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    high = low + torch.rand(5, 8, generator=generator, dtype=torch.float64)
    low[1], high[1] = -low[1].abs(), low[1].abs()
    found = items._fitted(layer, which, edges, low, high)
    for share in torch.linspace(0, 1, 11, dtype=torch.float64):
        t = edges[:, :-1] + share * (edges[:, 1:] - edges[:, :-1])
        line, limit = (
            found.slope[:, None] * t,
            found.constant[:, None] + found.growth[:, None] * t**2,
        )
        for end in (low, high):
            assert (end - line >= found.low[:, None]).all()
            assert (end - line <= found.high[:, None]).all()
            assert ((end - line) ** 2 <= limit).all()
    assert torch.equal(found.least, low.amin(1))
    assert torch.equal(found.most, high.amax(1))


@pytest.mark.parametrize("seed", [1, 2, 7, 13])
def test_what_underflows_is_on_the_outside(seed, monkeypatch) -> None:
    """Where the smallest number is a thousandth, every end is further out by it, at least."""
    of, room = tiny.case(seed), 1e-3
    found = tiny.opened(of)[0]
    ends = []
    for size in (0.0, room):
        monkeypatch.setattr(flips, "TINY", size)
        ends.append(flips.flips(found, of.ball))
    for exact, wide in zip(*ends, strict=True):
        for name in ("up", "down", "high"):
            assert (getattr(wide, name) >= getattr(exact, name) + 0.999 * room).all()
        assert (wide.low <= exact.low - 0.999 * room).all()


@pytest.mark.parametrize("seed", [1, 2, 7, 13])
def test_roundings_of_sums_are_on_the_outside(seed, monkeypatch) -> None:
    """Where SLACK is a thousandth every end is further out than where it is nothing, by as much."""
    of, slack = tiny.case(seed), 1e-3
    monkeypatch.setattr(norm, "_STEPS", 5)

    def at(size: float, work) -> object:
        for module in (flips, items, certificate, norm, path_ball):
            monkeypatch.setattr(module, "SLACK", size)
        return work()

    found = tiny.opened(of)[0]
    none, some = (at(size, lambda: flips.flips(found, of.ball)) for size in (0.0, slack))
    for exact, wide in zip(none, some, strict=True):
        for name in ("radius", "up", "down"):
            assert (getattr(wide, name) >= getattr(exact, name) * (1 + slack)).all()
        assert (wide.low <= exact.low - slack * exact.low.abs()).all()
        assert (wide.high >= exact.high + slack * exact.high.abs()).all()
        assert (wide.can | ~exact.can).all()
    for number, (layer, flip) in enumerate(zip(found.layers, none, strict=True)):
        where = flip.can.nonzero(as_tuple=True)
        edges = flip.radius[layer.run[where[0]], where[1]][:, None] * torch.linspace(-1, 1, 9)
        asked = found, layer, flip, where, edges.double()
        exact, wide = (at(size, lambda a=asked: items._switched(*a)) for size in (0.0, slack))
        length = (found.end - found.start)[where[0]].unsqueeze(1)
        on = layer.on[where].unsqueeze(1)
        less, more = exact[0] - slack * length, exact[1] + slack * length
        assert (wide[0] <= torch.where(on, less.clamp_min(0), exact[0] * (1 - slack))).all()
        held = torch.minimum(exact[1] * (1 + slack), length)
        assert (wide[1] >= torch.where(on, more, held) * (1 - 1e-12)).all()
        off = 16e-3 * (layer.low[where].abs() + layer.high[where].abs())
        moved = []
        for unit, spare in ((1e-3, 0 * off), (0.0, off)):
            up, down = flip.up.clone(), flip.down.clone()
            up[where], down[where] = up[where] + spare, down[where] + spare
            monkeypatch.setattr(items, "UNIT", unit)
            moved.append(
                items._switched(found, layer, replace(flip, up=up, down=down), where, 0 * edges)
            )
        monkeypatch.setattr(items, "UNIT", UNIT)
        tiny.close(torch.stack(moved[0]), torch.stack(moved[1]), 1e-9, 1e-12)
        asked = found, number, layer, flip
        exact, wide = (at(size, lambda a=asked: items._of_layer(*a)) for size in (0.0, slack))
        assert (wide.least <= exact.least - slack * exact.least.abs()).all()
        assert (wide.most >= exact.most + slack * exact.most.abs()).all()
    exact, wide = (at(size, lambda: tiny.certificate(of)) for size in (0.0, slack))
    ends = exact.map.abs() + (exact.high - exact.low) / 2
    assert wide.value >= exact.value * (1 + slack)
    assert (wide.low <= exact.low - slack * ends).all()
    assert (wide.high >= exact.high + slack * ends).all()


def drawn(seed: int, count: int, size: int) -> items.NeuronItems:
    """Items of no network: any numbers that the rules for them allow."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    rows, radius, slope = draw(count, size), draw(count).abs(), draw(count)
    low, high = -draw(count).abs(), draw(count).abs()
    furthest = torch.maximum(low.abs(), high.abs())
    near = 0.3 * furthest
    growth = (furthest**2 - near**2) / (0.5 * radius) ** 2
    least, most = low - slope.abs() * radius, high + slope.abs() * radius
    row_error = 0.1 * draw(count).abs()
    return items.NeuronItems(
        rows, row_error, radius, slope, low, high, near**2, growth, least, most
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_added_covers_rows_that_are_off(seed, monkeypatch) -> None:
    """Rows off by their errors, and sums of them; the mean gradient at its furthest."""
    for module in (certificate, norm):
        monkeypatch.setattr(module, "SLACK", 0.0)
    of, factor = drawn(seed, 5, 3), torch.tensor([0.5, -2.0, 1.0]).double()
    size = torch.maximum(of.least.abs(), of.most.abs())
    changed = certificate._change(of)
    products = torch.stack([of.rows * each.unsqueeze(1) for each in (of.least, of.most)])
    furthest = torch.maximum(products.amax(0).sum(0), -products.amin(0).sum(0)).clamp_min(0)
    tiny.close(changed, furthest + (of.row_error * size).sum())
    monkeypatch.setattr(certificate, "SLACK", 1e-3)
    wider = furthest + (of.row_error * size).sum() + 1e-3 * size @ of.rows.abs()
    tiny.close(certificate._change(of), wider * (1 + 1e-3))
    # Of M the rows count twice; of w the largest counts, as it stands there or as a residual.
    away = (4 * of.slope.abs() * of.radius + size + of.low.abs() + of.high.abs()) * of.row_error
    still = replace(of, row_error=0 * of.row_error)
    assert certificate._rounding(of, factor) >= 2 * 2 * away.sum()  # 2 is the largest factor
    assert certificate._rounding(of, factor) <= 2 * 4.1 * away.sum()
    roundings = (size * of.rows.norm(dim=1)).sum() * len(of) * UNIT
    assert 2 * roundings <= certificate._rounding(still, factor) <= 1e3 * roundings


@pytest.mark.parametrize("seed", [1, 2, 5, 13])
def test_a_certificate_is_put_together_from_its_parts(seed, monkeypatch) -> None:
    """M, the columns, the rest: from items, one after the other."""
    of, shifts = tiny.case(seed), []
    monkeypatch.setattr(norm, "_STEPS", 5)
    right = norm.Shift.of
    monkeypatch.setattr(
        certificate.Shift, "of", lambda *asked: shifts.append(right(*asked)) or shifts[0]
    )
    found, _, kept = tiny.opened(of)
    proved = tiny.certificate(of)
    (shift,) = shifts
    away = found.away if of.multiplied else torch.ones_like(found.away)
    units = of.ball.epsilon * of.ball.scale
    matrix = torch.diag(found.mean) if of.multiplied else 0 * torch.diag(found.mean)
    centre, half, changes = 0.0, [], []
    for own in kept:
        for slope, row, low, high in zip(own.slope, own.rows, own.low, own.high, strict=True):
            matrix = matrix + slope * away.unsqueeze(1) * torch.outer(row, row)
            centre = centre + (low + high) / 2 * away * row
            half.append((high - low) / 2 * away * row)
        for least, most, row in zip(own.least, own.most, own.rows, strict=True):
            changes.append(torch.stack([least * row, most * row]))
    tiny.close(shift.matrix, matrix * units, 1e-9, 1e-12)
    tiny.close(shift.columns @ shift.middle, centre, 1e-9, 1e-12)
    tiny.close((shift.columns * shift.half).T, torch.stack(half), 1e-7, 1e-12)
    tiny.close(shift.rows, torch.cat([own.rows for own in kept]) * units)
    ends = torch.stack(changes)
    change = torch.maximum(ends.amax(1).sum(0), -ends.amin(1).sum(0)).clamp_min(0)
    rest = change if of.multiplied else 0 * change
    weights = shift.weights()
    whole = min(shift.first(weights), shift.second(weights)) + of.ball.times(rest)
    assert proved.value == pytest.approx(whole, rel=1e-6)
    assert proved.items == len(half)
    stays = replace(of.ball, epsilon=0.0)
    for item in items.items(found, flips.flips(found, stays)).__dict__.values():
        assert torch.isfinite(item).all()
    for pieces_of in (found, tiny.opened(of, rough=True)[0]):
        there = items.items(pieces_of, flips.flips(pieces_of, stays))
        ends = torch.stack([there.least, there.most]).abs().amax(0)
        length = (away * there.rows).norm(dim=1) + away.abs().max() * there.row_error
        still = certificate._still(pieces_of, away, of.ball)
        assert still == pytest.approx((ends * length).sum().item(), rel=1e-6, abs=2.0**-300)
    order = 2 if of.ball.p == 2 else 1
    wide = shift.matrix.norm(p=order, dim=1) + torch.stack(half).abs().sum(0)
    wide = wide + of.ball.epsilon * of.ball.scale * rest
    score = away * found.mean
    tiny.close(proved.low, score + centre - wide, 1e-6, 1e-9)
    tiny.close(proved.high, score + centre + wide, 1e-6, 1e-9)
    error = away.abs() * found.mean_error
    stated = []
    for slack in (0.0, 1e-3):
        monkeypatch.setattr(certificate, "SLACK", slack)
        more = of.ball.epsilon * of.ball.scale * rest
        stated.append(certificate._stated(found, away, shift, more, 1.0))
    margin = 1e-3 * (score.abs() + centre.abs() + wide)
    tiny.close(stated[0].low - stated[1].low, margin, 1e-5, 1e-12)
    tiny.close(stated[1].high - stated[0].high, margin, 1e-5, 1e-12)
    assert (proved._pairs.error >= error).all()
    assert (proved._pairs.error <= 1.1 * error).all()


def shifted(seed: int, p: float) -> tuple[norm.Shift, torch.Tensor]:
    """Of items of no network; and shifts by all corners of residuals at many points."""
    generator = torch.Generator().manual_seed(seed)
    of, ball = drawn(seed, 4, 3), PathBall(0.5, p, torch.tensor([1.0, 0.5, 2.0]).double())
    matrix = 0.3 * torch.randn(3, 3, generator=generator, dtype=torch.float64)
    of = replace(of, radius=ball.of(of.rows), constant=0.04 * of.constant)
    of = replace(of, growth=torch.maximum(of.low.abs(), of.high) ** 2 / of.radius**2)
    factor = torch.tensor([0.5, -2.0, 1.0]).double()
    shift = norm.Shift.of(matrix, factor, of, ball)
    v = torch.randn(3000, 3, generator=generator, dtype=torch.float64)
    v = v / torch.linalg.vector_norm(v, ord=p, dim=1, keepdim=True)
    v = torch.cat([v, v.sign(), 0 * v[:1]]) if p == math.inf else torch.cat([v, 0 * v[:1]])
    delta = v * ball.epsilon * ball.scale
    limit = (of.constant + of.growth * (delta @ of.rows.T) ** 2).sqrt()
    ends = torch.stack([torch.maximum(of.low, -limit), torch.minimum(of.high, limit)])
    moved = [
        delta @ matrix.T + (factor * (torch.stack([*corner], 1) @ of.rows))
        for corner in itertools.product(*ends.permute(2, 0, 1))
    ]
    return shift, torch.stack(moved).norm(dim=2)


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_both_norms_hold_at_every_corner_and_nearly_at_one(p) -> None:
    better = 0
    for seed in range(3):
        shift, lengths = shifted(seed, p)
        weights = shift.weights()
        first, second = shift.first(weights), shift.second(weights)
        assert lengths.max() <= second <= first * 1.3
        assert min(first, second) <= 1.6 * lengths.max()
        better += second < 0.98 * first
    assert better > 0


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_weights_that_are_none_prove_nothing(p) -> None:
    """Whatever a search finds, it is a bound above the truth, or none at all."""
    shift, lengths = shifted(1, p)
    weights = shift.weights()
    for place, value in itertools.product((0, 1, -1), (0.0, -1e-9, math.nan)):
        wrong = weights.clone()
        wrong[place] = value
        assert shift.first(wrong) == math.inf
    for factor in (1e-6, 0.5, 20.0):
        uneven = weights.clone()
        uneven[::2] *= factor
        assert lengths.max().item() <= shift.first(uneven) < math.inf


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_what_rounding_took_from_the_parts_is_given_back(p, monkeypatch) -> None:
    """Parts of the second norm that are off by what is stated of them prove no less."""
    honest, slack = norm._Multipliers.parts, 1e-3

    def off(self) -> tuple[torch.Tensor, ...]:
        outer, least, budget, *stated = honest(self)
        eye, of = torch.eye(len(outer), dtype=torch.float64), self.shift.items
        c, z, y, ball = self.logs.exp().split([1, 4, 4, len(self.logs) - 9])
        ball = ball.expand(len(outer) if self.shift.cube else 1)
        terms = (self.shift.middle * z) ** 2 / (y + z), z * of.low * of.high, y * of.constant
        size = sum(each.abs().sum() for each in (*terms, c, ball))
        trace = ball.expand(len(outer)).sum() + (y * of.growth * self.shift.rows.T**2).sum()
        assert size <= stated[0] * (1 + 1e-12) <= 2 * size
        assert trace <= stated[1] * (1 + 1e-12) <= 2 * trace
        less = outer - slack * outer.diagonal().sum() * eye
        return less, least + slack * trace * eye, budget - slack * size, *stated

    proved, best = norm._Multipliers.proved, []
    for seed in range(2):
        shift, _ = shifted(seed, p)
        monkeypatch.setattr(norm, "SLACK", 0.0)
        monkeypatch.setattr(norm._Multipliers, "parts", honest)
        monkeypatch.setattr(norm._Multipliers, "proved", lambda self: best.append(self) or 1.0)
        shift.second(shift.weights())
        monkeypatch.setattr(norm._Multipliers, "proved", proved)
        exact = best[-1].proved()
        assert exact == pytest.approx(math.sqrt(best[-1].square().item()), rel=1e-4)
        monkeypatch.setattr(norm, "SLACK", slack)
        assert exact * (1 + slack) <= best[-1].proved() <= exact * (1 + 100 * slack)
        monkeypatch.setattr(norm._Multipliers, "parts", off)
        assert exact * (1 - slack / 10) <= best[-1].proved()
        monkeypatch.setattr(norm, "SLACK", slack)
        of, one = shift.items, torch.ones((), dtype=torch.float64)
        ball = PathBall(1.0, p, one.expand(3))
        again = norm.Shift.of(shift.matrix, one.expand(3), of, ball)
        tiny.close(again.half, (1 + slack) * (of.high - of.low) / 2)


@pytest.mark.parametrize("seed", [1, 2, 3, 9, 12])
def test_nothing_is_lost_where_squares_underflow(seed) -> None:
    """Scores of 1e-240: what is proved of them holds to the last digit that there is."""
    of = tiny.case(seed)
    one = torch.ones((), dtype=torch.float64)
    widths = [module.in_features for module in of.net if isinstance(module, nn.Linear)]
    units = [one.expand(width) for width in widths] + [(one * 2.0**-800).expand(2)]
    low = replace(
        of,
        net=reference_of_proofs.in_units(of.net, units),
        moved=of.moved * 2.0**-800,
        clean=of.clean * 2.0**-800,
    )
    assert not tiny.violated(low, tiny.certificate(low))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, 8.0, math.inf])
def test_the_ball_of_a_path_holds_the_ball_that_was_asked_for(p) -> None:
    scale = torch.tensor([1.0, 0.0, 2.5]).double()
    x = torch.zeros(1, 3).double()
    asked = ab.LpBall(0.3, p, scale=scale)
    around = PathBall.around(enclosure(asked, x), 0, 3)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4000, 3, generator=generator, dtype=torch.float64)
    points = asked.maximiser(drawn, x.expand(4000, 3))
    rows = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    assert ((points @ rows.T).amax(0) <= around.of(rows) * (1 + 1e-12)).all()
    assert points.abs().max() <= around.furthest * (1 + 1e-12)
    assert (points * rows[0]).norm(dim=1).max() <= around.times(rows[0].abs()) * (1 + 1e-12)
    if p in (2.0, math.inf):
        assert around.of(rows).tolist() == pytest.approx(
            (points @ rows.T).amax(0).tolist(), rel=0.05
        )
        assert around.furthest == pytest.approx(points.abs().max().item(), rel=0.05)
        length = (points * rows[0]).norm(dim=1).max().item()
        assert around.times(rows[0].abs()) == pytest.approx(length, rel=0.05)
        assert around.epsilon == asked.epsilon
        assert around.p == p
    else:  # the Euclidean ball around it: points at its ends are as far out as that
        around = PathBall.around(enclosure(replace(asked, scale=None), x), 0, 3)
        assert around.epsilon == pytest.approx(0.3 * max(1.0, 3 ** (0.5 - 1 / p)), rel=1e-6)
        assert around.epsilon > 0.3 * max(1.0, 3 ** (0.5 - 1 / p))
        assert around.p == 2


@pytest.mark.parametrize("seed", [1, 2, 7, 9])
def test_what_a_proof_lacks_is_added(seed, monkeypatch) -> None:
    """Certificates hold, and are not smaller, whatever the factorisation leaves open."""
    of = tiny.case(seed)
    first = tiny.certificate(of).value
    reference_of_proofs.poor_proofs(monkeypatch, norm, quadratic)
    found = tiny.certificate(of)
    assert not tiny.violated(of, found)
    assert found.value >= first * (1 - 1e-6)


@pytest.mark.slow
def test_no_sample_of_300_networks_moves_further() -> None:
    assert not [
        seed for seed in range(8, 308) if tiny.violated(c := tiny.case(seed), tiny.certificate(c))
    ]


def _no_switches(monkeypatch) -> None:
    """Only what switches at x itself counts."""
    real = certificate.flips
    monkeypatch.setattr(certificate, "flips", lambda p, b: real(p, replace(b, epsilon=0.0)))


def _flips_changed(monkeypatch, change) -> None:
    real = certificate.flips
    monkeypatch.setattr(
        certificate,
        "flips",
        lambda p, b: [change(layer, of) for layer, of in zip(p.layers, real(p, b), strict=True)],
    )


def _adjoints_stay(monkeypatch) -> None:
    """Derivatives by outputs stay what they are at x."""
    _flips_changed(
        monkeypatch, lambda layer, of: replace(of, low=layer.adjoint, high=layer.adjoint)
    )


def _layers_apart(monkeypatch) -> None:
    """Neurons before do not move those after when they switch."""
    real = flips._forward

    def apart(*asked):
        return real(*asked[:-1], [replace(each, most=0 * each.most) for each in asked[-1]])

    monkeypatch.setattr(flips, "_forward", apart)


def _wrong_ends(monkeypatch) -> None:
    """Lengths at the wrong ends of pieces: the least is taken for the most."""
    real = items._switched
    monkeypatch.setattr(items, "_PIECES", 4)
    monkeypatch.setattr(items, "_switched", lambda *asked: real(*asked[:-1], asked[-1].flip(1)))


def _no_residual(monkeypatch) -> None:
    """First order taken for the whole truth."""
    real = certificate.items
    monkeypatch.setattr(
        certificate, "items", lambda p, f: replace(i := real(p, f), low=0 * i.low, high=0 * i.high)
    )


def _no_growth(monkeypatch) -> None:
    """The residual is as small everywhere as it is near zero."""
    real = certificate.items
    monkeypatch.setattr(
        certificate, "items", lambda p, f: replace(i := real(p, f), growth=0 * i.growth)
    )


def _displacement_stays(monkeypatch) -> None:
    """The factor x - baseline does not meet the change of the gradient."""
    monkeypatch.setattr(certificate, "_change", lambda moving: 0 * moving.rows.sum(0))


#: Networks of which at least one shows it.
CAUGHT_AT = {
    "_no_switches": (1,),
    "_adjoints_stay": (6,),
    "_layers_apart": (84,),
    "_wrong_ends": (1,),
    "_no_residual": (2,),
    "_no_growth": (7,),
    "_displacement_stays": (7,),
}


@pytest.mark.parametrize(
    "broken",
    [
        _no_switches,
        _adjoints_stay,
        _layers_apart,
        _wrong_ends,
        _no_residual,
        _no_growth,
        _displacement_stays,
    ],
)
def test_every_step_broken_is_caught(monkeypatch, broken) -> None:
    broken(monkeypatch)
    tried = (tiny.case(seed) for seed in CAUGHT_AT[broken.__name__])
    assert any(tiny.violated(of, tiny.certificate(of)) for of in tried)


def test_the_batch_has_the_claim_certified() -> None:
    """Through ``bound``: every p, float32, one baseline each, and attacks below it."""
    net, x = reference.mlp((12, 10)).float(), reference.rows(3).float()
    ig = ab.IntegratedGradients(net, baseline=0.1 * torch.ones_like(x), quadrature="exact")
    for ball in (ab.L2Ball(0.2), ab.LinfBall(0.1), ab.LpBall(0.2, 3), ab.LpBall(0.2, 1)):
        made = ab.bound(ig, x, ball, claim="certified")
        assert made.claim.name == "certified"
        assert made.subject == "your network"
        assert set(made.source) == {"exact path"}
        laws.attack_below(ab.attacks.AttributionAscent(steps=5)(ig, x, ball), made)


@pytest.mark.parametrize("multiply", [True, False])
def test_without_offsets_it_is_that_of_input_times_gradient(multiply) -> None:
    """Which it is: from zero the gradient is the same all along the path. It holds across jumps."""
    net, x = reference.without_biases(), reference.rows(3).double()
    jumping = ab.IntegratedGradients(net, quadrature="exact", multiply_by_inputs=multiply)
    same = ab.InputXGradient(net) if multiply else ab.Saliency(net)
    ball = ab.L2Ball(0.05)
    made = ab.bound(jumping, x, ball, claim="certified")
    assert torch.equal(made.euclidean, ab.bound(same, x, ball, claim="certified").euclidean)
    assert not any(ab.Status.JUMPS in status for status in made.status)
    looser = certify_exact(jumping, x, ball, made.target, 2**32).value
    assert made.euclidean.sum() < looser.sum()
    for row in range(3):
        many, label = x[row].expand(300, -1), made.target[row].expand(300)
        moved = jumping(many + ball.sample_sphere(many, 0), label) - jumping(many, label)
        assert moved.norm(dim=1).max() <= made.euclidean[row]
    told = ab.reasons(jumping, x, ball, k=2, claim="certified", attack=False)
    assert torch.equal(told.low, ab.reasons(same, x, ball, 2, claim="certified", attack=False).low)
    for other in (reference.mlp((12, 10)), reference.mlp((12,), hinge=lambda: nn.LeakyReLU(2.0))):
        assert without_offsets(ab.IntegratedGradients(other, quadrature="exact"), x) is None
    elsewhere = ab.IntegratedGradients(net, baseline=0.1, quadrature="exact")
    assert without_offsets(elsewhere, x) is None


@pytest.mark.parametrize("p", [2.0, math.inf])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 5.0])
def test_every_input_that_is_computed_is_in_the_wider_ball(p, epsilon) -> None:
    """x + delta in float32 is elsewhere than delta says; what is frozen stays, in any units."""
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor([0.7, -300.0, 1e-6, 4.0])
    unit = torch.finfo(x.dtype).eps / 2
    scale = torch.tensor([0.3, 20.0, 1e-3, 0.0]).double()
    ball = PathBall(epsilon, p, scale)
    wide = ball.evaluated(x.double(), unit)
    drawn = torch.randn(3000, 4, generator=generator, dtype=torch.float64)
    drawn[:, 3] = 0.0
    length = torch.linalg.vector_norm(drawn, ord=p, dim=1, keepdim=True)
    delta = (epsilon * scale * drawn / length).float()
    moved = (x + delta).double() - x.double()
    out = torch.linalg.vector_norm(moved[:, :3] / scale[:3], ord=p, dim=1)
    assert (out <= wide.epsilon).all()
    assert (moved[:, 3] == 0).all()
    if epsilon == 1e-8:  # and not in the ball that was asked for
        assert (out > epsilon).any()
    rounded = [
        unit * (abs(v) / s + epsilon) for v, s in zip(x.tolist()[:3], scale.tolist(), strict=False)
    ]
    room = max(rounded) if p == math.inf else math.hypot(*rounded)
    exact = epsilon * (1 + 32 * unit) + room
    assert 0.9 * SLACK <= wide.epsilon / exact - 1 <= 1.1 * SLACK
    assert (wide.p, wide.scale.tolist()) == (p, scale.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rounding_of_both_maps_is_counted_in_rational_numbers(dtype, monkeypatch) -> None:
    """32 units of the bound and two of the map; each example with its own path and ball."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).to(dtype).eval()
    x = torch.tensor([[0.7, 0.6], [3.0, -1.0]], dtype=dtype)
    ig = ab.IntegratedGradients(net, quadrature="exact", baseline=0.25)
    values, lengths, asked = (1e-3, 0.5), (2.0, 0.1), []

    def certified(_network, path, ball):
        asked.append((path, ball))
        number = len(asked) - 1
        return SimpleNamespace(
            value=values[number], map=torch.tensor([lengths[number], 0.0]).double()
        )

    monkeypatch.setattr(exact_bound, "certify_path", certified)
    proved = certify_exact(ig, x, ab.L2Ball(0.1), torch.tensor([1, 0]), 2**32).value
    assert proved.dtype == dtype
    eps = Fraction(torch.finfo(dtype).eps)
    for row, (path, ball) in enumerate(asked):
        exact = Fraction(values[row]) * (1 + 32 * eps) + 2 * eps * Fraction(lengths[row])
        least = exact * (1 - Fraction(1, 2**50))
        assert least <= Fraction(proved[row].item()) <= exact * (1 + eps * Fraction(1.1))
        assert path.x.tolist() == [x[row].double().tolist()]
        assert path.base.tolist() == [[0.25, 0.25]]
        assert (path.target, path.multiplied) == (1 - row, True)
        plain = PathBall(0.1, 2.0, torch.ones(2).double())
        assert ball.epsilon == plain.evaluated(x[row].double(), float(eps) / 2).epsilon


@pytest.mark.parametrize("left_out", [False, True])
def test_inputs_and_maps_in_float32_count(left_out, monkeypatch) -> None:
    """In balls of a few roundings x + delta is elsewhere than delta says, and maps are rounded."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        net[0].bias.fill_(-1.0)
        net[2].weight.copy_(torch.tensor([[2.0], [0.0]]))
    ig, ball = ab.IntegratedGradients(net, quadrature="exact"), ab.L2Ball(1e-7)
    x, label = torch.tensor([[0.7, 0.6]]), torch.tensor([0])
    many = x.expand(500, -1)
    points = many + ball.project(ball.sample_sphere(many, 0), many)
    moved = ig(points, label.expand(500)) - ig(x, label)
    if left_out:
        monkeypatch.setattr(torch, "finfo", lambda dtype: SimpleNamespace(eps=0.0))
    proved = certify_exact(ig, x, ball, torch.tensor([0]), 2**32).value
    assert (moved.norm(dim=1).max() > proved[0]) == left_out


def test_as_the_ball_shrinks_it_becomes_first_order() -> None:
    net, x = reference.mlp((12, 10)), reference.rows(3)
    ig, ball = ab.IntegratedGradients(net, quadrature="exact"), ab.L2Ball(1e-5)
    ratio = (
        ab.bound(ig, x, ball, claim="certified").euclidean / ab.bound(ig, x, ball).xi.lower / 1e-5
    )
    assert (ratio >= 1).all()
    assert (ratio <= 1.05).all()  # 48 pieces of t


def test_many_features_have_the_first_of_both_bounds(monkeypatch) -> None:
    of = tiny.case(2)
    both = tiny.certificate(of).value
    monkeypatch.setattr(certificate, "MOST_FEATURES", of.x.shape[1])
    assert tiny.certificate(of).value == both
    monkeypatch.setattr(certificate, "MOST_FEATURES", 1)
    assert both <= tiny.certificate(of).value
    assert not tiny.violated(of, tiny.certificate(of))


def test_refuses_what_it_cannot_hold_and_what_is_not_convex() -> None:
    x, target = reference.rows(1), torch.tensor([0])
    ig = ab.IntegratedGradients(reference.mlp((12, 10)), quadrature="exact")
    network = piecewise(reference.mlp((12, 10)), (5,))
    needed = 8 * ((22 + pieces._GRID) * 10 * (5 + 22) + 22 * 5)
    pieces.check_memory(network, needed)
    with pytest.raises(ab.MemoryLimitError):
        pieces.check_memory(network, needed - 1)
    with pytest.raises(ab.MemoryLimitError, match="GiB for 5 features and 22 neurons"):
        ab.bound(ig, x, ab.L2Ball(0.1), method=ab.Certified(memory_limit=1000))
    for slope, refused in ((2.0, True), (-1.5, True), (1.0, False), (-1.0, False)):
        hinged = reference.mlp((6,), hinge=lambda slope=slope: nn.LeakyReLU(slope))
        of = ab.IntegratedGradients(hinged, quadrature="exact")
        if refused:
            with pytest.raises(ab.ModelError, match=f"a LeakyReLU of slope {slope:g}"):
                certify_exact(of, x, ab.L2Ball(0.1), target, 2**32)
        else:
            assert certify_exact(of, x, ab.L2Ball(0.1), target, 2**32).value > 0


def test_only_the_exact_integral_itself_is_certified_so() -> None:
    """Not another attribution of that network, nor sums over nodes, nor one with its own value."""

    class Own(ab.IntegratedGradients):
        def _value(self, x, target):
            return 2 * super()._value(x, target)

    net = reference.mlp((6,))
    assert is_exact(ab.IntegratedGradients(net, quadrature="exact"))
    assert not is_exact(Own(net, quadrature="exact"))
    assert not is_exact(ab.IntegratedGradients(net, steps=3))
    assert not is_exact(ab.Saliency(net))


def test_top_features_that_stay() -> None:
    """In a ball that moves nothing all stay, in a large one none."""
    of = tiny.case(1)
    still = tiny.certificate(replace(of, ball=replace(of.ball, epsilon=1e-9)))
    assert still.top_that_stay(1) == 1
    assert tiny.certificate(replace(of, ball=replace(of.ball, epsilon=9.0))).top_that_stay(1) == 0
