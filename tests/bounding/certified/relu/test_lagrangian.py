"""Items that share one perturbation: proved values against all subsets and many perturbations."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from attribound.bounding.certified.relu import lagrangian
from attribound.bounding.certified.relu.cut import longest
from attribound.bounding.certified.relu.lagrangian import shared
from attribound.bounding.certified.relu.region import Region


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
