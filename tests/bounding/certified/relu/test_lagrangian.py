"""Items that share one perturbation: proved values against all subsets and many perturbations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from attribound.bounding.certified.relu import cut, lagrangian
from attribound.bounding.certified.relu.cut import longest
from attribound.bounding.certified.relu.lagrangian import shared
from attribound.bounding.certified.relu.region import Region
from bounding.certified import reference


def problem(seed: int, p: float, size: int = 2, count: int = 7):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ones = torch.ones(size, dtype=torch.float64)
    low = -ones if seed % 3 else torch.zeros(size, dtype=torch.float64)
    region = Region(p, 0.5, ones, 0.5 * low, 0.5 * ones)
    centre = draw(4) * 0.2
    threshold = 0.3 * torch.rand(count, generator=generator, dtype=torch.float64) - 0.05 * (
        seed % 2
    )
    return region, centre, draw(count, 4), draw(count, size), threshold


def attained(region, centre, items, slope, threshold) -> float:
    """The truth, on a grid of perturbations: of allowed items the best subset."""
    side = torch.linspace(-0.5, 0.5, 41, dtype=torch.float64)
    grid = torch.tensor([*itertools.product(side.tolist(), repeat=2)], dtype=torch.float64)
    inside = (grid >= region.low).all(1) & (grid <= region.high).all(1)
    inside &= torch.linalg.vector_norm(grid, ord=region.p, dim=1) <= 0.5
    allowed = {tuple(row) for row in (grid[inside] @ slope.T >= threshold).tolist()}
    worst = 0.0
    for some in allowed:
        sums = centre.unsqueeze(0)
        for item in items[torch.tensor(some)]:
            sums = torch.cat([sums, sums + item])
        worst = max(worst, sums.norm(dim=1).max().item())
    return worst


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_holds_and_is_no_worse_than_the_cut(p) -> None:
    gains = []
    for seed in range(12):
        asked = problem(seed, p)
        found, plain = shared(*asked), longest(*asked[1:3])
        assert attained(*asked) <= found <= plain * (1 + 1e-9)
        gains.append(found / plain)
    assert min(gains) < 0.9  # it is worth something


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_the_search_comes_close_to_a_longer_one_and_is_well_below_the_cut(p, monkeypatch) -> None:
    """It does not end before multipliers have settled: a tenth of the steps is far from there."""

    def values(steps: int) -> torch.Tensor:
        monkeypatch.setattr(lagrangian, "_STEPS", steps)
        found = []
        for seed in (1, 2, 4):
            region, centre, items, slope, drawn = problem(seed, p, size=10, count=60)
            asked = centre, items, slope, (0.1 + 3 * drawn) * region.support(slope)
            found.append(shared(region, *asked) / longest(centre, items))
        return torch.tensor(found)

    usual = lagrangian._STEPS
    found, longer, shorter = values(usual), values(8 * usual), values(usual // 10)
    assert (found < 0.85).all()
    assert (found <= 1.06 * longer).all()
    assert (shorter > 1.05 * found).all()


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_a_search_that_is_out_of_time_proves_less_but_nothing_wrong(p) -> None:
    lost = []
    for seed in range(12):
        asked = problem(seed, p)
        full, none = shared(*asked), shared(*asked, 0.0)
        assert shared(*asked, math.inf) == full
        assert attained(*asked) <= none <= longest(*asked[1:3]) * (1 + 1e-9)
        lost.append(none / full)
    assert max(lost) > 1.02


def test_what_can_never_switch_does_not_spoil_the_search() -> None:
    """Where the range forbids every way towards a kink no multiplier is too large."""
    region, centre, items, slope, threshold = problem(0, 2.0)
    never = torch.zeros_like(slope[:1])
    more = shared(
        region,
        centre,
        torch.cat([items, 3 * items[:1]]),
        torch.cat([slope, never]),
        torch.cat([threshold, threshold.new_tensor([0.2])]),
    )
    assert more <= 1.05 * shared(region, centre, items, slope, threshold)


def test_thresholds_below_zero_stay_so(monkeypatch) -> None:
    """An item that is possible at x pays nothing: with a threshold of more it would be unsound."""
    right = lagrangian._in_units

    def wrong(*asked):
        found = right(*asked)
        return lagrangian.Terms(
            found.centre, found.items, found.slope, found.threshold + 0.3, found.cube
        )

    monkeypatch.setattr(lagrangian, "_in_units", wrong)
    assert any(shared(*problem(seed, 2.0)) < attained(*problem(seed, 2.0)) for seed in range(30))


def test_items_beyond_the_limit_count_one_by_one(monkeypatch) -> None:
    monkeypatch.setattr(lagrangian, "MOST", 4)
    for seed in range(4):
        asked = problem(seed, 2.0)
        assert attained(*asked) <= shared(*asked) <= longest(*asked[1:3]) * (1 + 1e-9)


def test_other_norms_and_no_items_are_left_to_the_cut() -> None:
    region, centre, items, slope, threshold = problem(0, 1.0)
    assert shared(region, centre, items, slope, threshold) == longest(centre, items)
    none = slope[:0]
    assert shared(problem(0, 2.0)[0], centre, items[:0], none, threshold[:0]) == pytest.approx(
        centre.norm().item()
    )


def some_regions():
    """Cut at one end, at the other, not at all; frozen features; every kind of order."""
    generator = torch.Generator().manual_seed(3)
    for p, at in itertools.product([1.0, 1.5, 2.0, 3.0, math.inf], range(4)):
        scale = 0.5 + torch.rand(3, generator=generator, dtype=torch.float64)
        scale[2] = 0.0 if at == 3 else scale[2]
        far = 0.4 * scale
        low, high = -far.clone(), far.clone()
        if at in (1, 3):
            low[0], high[1] = 0.0, 0.1 * high[1]
        if at in (2, 3):
            high[0], low[1] = 0.0, 0.0
        yield Region(p, 0.4, scale, low, high)


@pytest.mark.parametrize("region", [*some_regions()])
def test_what_a_region_says_holds_at_every_point_and_nearly_at_one(region) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(20_000, 3, generator=generator, dtype=torch.float64)
    unit = drawn / torch.linalg.vector_norm(drawn, ord=region.p, dim=1, keepdim=True)
    share = torch.rand(20_000, 1, generator=generator, dtype=torch.float64).sqrt()
    clipped = (region.epsilon * region.scale * unit * share).clamp(region.low, region.high)
    points = torch.cat(
        [clipped, (region.epsilon * region.scale * unit).clamp(region.low, region.high)]
    )
    rows = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    rows[:2] = rows[:2].sign() * torch.tensor([1e-3, 1.0, 1.0]).double()
    products = (points @ rows.T).amax(0)
    assert (products <= region.support(rows)).all()
    assert (products <= points.abs() @ rows.abs().T).any()
    assert ((points.abs() @ rows.abs().T).amax(0) <= region.size(rows)).all()
    assert (points * rows[0].abs()).norm(dim=1).max() <= region.stretched(rows[0].abs())
    assert (points.abs().amax(0) <= region.largest).all()
    # No tighter than true, and not much looser.
    assert (region.support(rows) <= 1.45 * products + 1e-12).all()
    whole = torch.where(torch.maximum(region.high, -region.low) > 0, 1.0, 0.0) * rows.abs()
    apart = (points.abs() @ rows.abs().T).amax(0)
    assert (region.size(rows) <= 1.45 * apart + 1e-12).all()
    assert (region.size(rows) <= region.size(whole) * (1 + 1e-12)).all()
    assert region.stretched(rows[0].abs()) <= 1.45 * (points * rows[0].abs()).norm(dim=1).max()
    every = torch.cat([region.furthest(rows), region.inside(3 * points[:50])])
    assert ((every >= region.low) & (every <= region.high)).all()
    units = torch.where(region.scale > 0, every / region.scale.clamp_min(1e-30), 0.0)
    assert (torch.linalg.vector_norm(units, ord=region.p, dim=1) <= region.epsilon).all()
    assert (every[:, region.scale == 0] == 0).all()
    reached = (region.furthest(rows) * rows).sum(1)
    assert (reached >= 0.5 * products).all()
    half = region.shrunk(0.5)
    torch.testing.assert_close(half.support(rows), region.support(rows) / 2)


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_what_a_proof_lacks_is_added(p, monkeypatch) -> None:
    """Bounds hold whatever the factorisation leaves open, if it says so."""
    truth = [attained(*problem(seed, p)) for seed in range(8)]
    subsets = []
    for seed in range(8):
        _, centre, items, *_ = problem(seed, p, count=12)
        sums = centre.unsqueeze(0)
        for item in items:
            sums = torch.cat([sums, sums + item])
        subsets.append((sums.norm(dim=1).max().item(), centre, items))
    reference.poor_proofs(monkeypatch, lagrangian, cut)
    monkeypatch.setattr(lagrangian, "longest", lambda *_: math.inf)
    for seed, least in enumerate(truth):
        assert least <= shared(*problem(seed, p))
    for least, centre, items in subsets:
        assert least <= longest(centre, items)
    matrix = torch.diag(torch.tensor([3.0, 1.0, 1.0]).double())
    assert cut.eigenvalue(matrix) >= 3.0


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 14])
def test_longest_against_all_subsets(count) -> None:
    """Tried one and all, or by the dual: above the truth, and not far."""
    for seed in range(6):
        _, centre, items, *_ = problem(seed, 2.0, count=max(1, count))
        items = items[:count]
        sums = centre.unsqueeze(0)
        for item in items:
            sums = torch.cat([sums, sums + item])
        least = sums.norm(dim=1).max().item()
        assert least <= longest(centre, items) <= least * (1.2 if count > 10 else 1 + 1e-7)


@pytest.mark.parametrize("cube", [False, True])
def test_the_dual_is_above_the_lagrangian_of_every_subset(cube, monkeypatch) -> None:
    """For any multipliers, not only for those that a search finds; and not far above."""
    generator = torch.Generator().manual_seed(4)
    subsets = torch.tensor([*itertools.product([0.0, 1.0], repeat=7)], dtype=torch.float64)
    for seed in range(8):
        region, centre, items, slope, threshold = problem(seed, math.inf if cube else 2.0)
        asked = lagrangian._in_units(region, centre, items, slope, threshold)
        a = torch.rand(7, generator=generator, dtype=torch.float64)
        nu = 0.5 + torch.rand(2 if cube else 1, generator=generator, dtype=torch.float64).expand(2)
        paid = subsets @ (a * asked.threshold)
        moved = (subsets * a) @ asked.slope
        every = (asked.centre + subsets @ asked.items).square().sum(1) - paid
        room = nu.sum() if cube else nu[0]
        most = (every + (moved**2 / (4 * nu)).sum(1)).max() + room
        v = torch.randn(8, 6, generator=generator, dtype=torch.float64)
        v = lagrangian._ascend(*lagrangian._rows(asked, a, nu), v / v.norm(dim=1)[:, None], 60)
        proved = []
        for slack in (0.0, 1e-3):
            monkeypatch.setattr(lagrangian, "SLACK", slack)
            proved.append(lagrangian._proved(asked, a, nu, v))
        assert most <= proved[0] <= 1.3 * most
        rows, arrow = lagrangian._rows(asked, a, nu)
        margin = len(rows) * (rows.square().sum() + 2 * arrow.abs().sum())
        terms = (a * asked.threshold).abs().sum() + room
        margin = 1e-3 * (margin + terms + (proved[0] - room).abs() - terms / 2)
        assert margin <= (proved[1] - proved[0]) * (1 + 1e-6) <= 1.5 * margin
        # In units of the region every item asks for what it asked for, if not for less.
        points = region.furthest(torch.randn(50, 2, generator=generator, dtype=torch.float64))
        half = (region.high - region.low) / 2 if cube else 0.5 * torch.ones(2)
        middle = (region.high + region.low) / 2 if cube else 0 * half
        v = (points - middle) / half
        said, meant = v @ asked.slope.T - asked.threshold, points @ slope.T - threshold
        assert (said >= meant).all()
        if cube or seed % 3:
            sizes = threshold.abs() + region.size(slope)
            assert (said <= meant + 1.1e-3 * sizes + 1e-9).all()


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_multipliers_that_are_none_prove_nothing(p) -> None:
    """Whatever a search finds: a negative one would let items pay that can't; nu need not agree."""
    for seed in range(6):
        asked = lagrangian._in_units(*problem(seed, p))
        a, nu, v = lagrangian._multipliers(asked, math.inf)
        assert (a >= 0).all()
        assert (nu > 0).all()
        assert lagrangian._proved(asked, a, nu, v) < math.inf
        for wrong in (-1.0, math.nan):
            assert lagrangian._proved(asked, a - 2 + wrong, nu, v) == math.inf
            assert lagrangian._proved(asked, a, nu * wrong, v) == math.inf
        assert lagrangian._proved(asked, a, 0 * nu, v) == math.inf
        uneven = nu * torch.tensor([1.0, 3.0]).double()
        assert lagrangian._proved(asked, a, uneven, v) >= attained(*problem(seed, p)) ** 2


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1.0, 1e6])
def test_a_largest_eigenvalue_is_hardly_above_itself(unit) -> None:
    for values in ([3.0, 1.0, 0.5], [0.25], [0.0, 2.0, 2.0, 2.0]):
        matrix = unit * torch.diag(torch.tensor(values, dtype=torch.float64))
        exact = unit * max(values)
        assert exact <= cut.eigenvalue(matrix) <= exact * (1 + 1e-7)


def test_margins_of_cuts_count_every_item(monkeypatch) -> None:
    for seed, count in itertools.product(range(3), (0, 5, 14)):
        _, centre, items, *_ = problem(seed, 2.0, count=max(1, count))
        found = []
        for slack in (0.0, 1e-3):
            monkeypatch.setattr(cut, "SLACK", slack)
            found.append(longest(centre, items[:count]))
        size = centre.norm() + items[:count].norm(dim=1).sum()
        margin = 1e-3 * (found[0] + size)
        assert margin <= (found[1] - found[0]) * (1 + 1e-9) <= (8.0 if count > 10 else 1.1) * margin
        if count > 10:
            duals = []
            for slack in (0.0, 1e-3):
                monkeypatch.setattr(cut, "SLACK", slack)
                duals.append(cut._dual(centre, items))
            # A thousandth of the square, and of the trace: the largest eigenvalue is no more.
            assert duals[1] >= duals[0] * (1 + 1e-3) * (1 - 1e-6)


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_what_is_proved_of_all_together_is_rounded_outwards(p, monkeypatch) -> None:
    """The root of the square, with room for its rounding, and of the rest one by one."""
    slack = 1e-3
    monkeypatch.setattr(lagrangian, "SLACK", slack)
    monkeypatch.setattr(lagrangian, "longest", lambda *_: 1e9)
    squares, right = [], lagrangian._proved
    monkeypatch.setattr(
        lagrangian, "_proved", lambda *asked: squares.append(right(*asked)) or squares[-1]
    )
    for seed in range(4):
        squares.clear()
        found = shared(*problem(seed, p))
        assert found == pytest.approx(math.sqrt(squares[0]) * (1 + slack), rel=1e-9)
    monkeypatch.setattr(lagrangian, "MOST", 4)
    assert shared(*problem(0, p)) == 1e9  # the rest counts, too: it is no less than all of them
