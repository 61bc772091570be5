"""Linear maps, where everything can be enumerated or solved: rules that must be exact, or hold."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from attribound.attacks.displace import first_of, staying
from attribound.bounding.certified.relu.region import Region
from attribound.bounding.reasons.deciding import at_most, by_norm, cost, decide
from attribound.bounding.reasons.motion import Directed, RowMotion, Rows, WholeMap
from attribound.operators import DenseOperator


def region(size: int, epsilon: float, p: float = 2.0, scale: Tensor | None = None) -> Region:
    units = torch.ones(size, dtype=torch.float64) if scale is None else scale
    return Region(p, epsilon, units, -epsilon * units, epsilon * units)


def linear(matrix: Tensor, around: Region) -> RowMotion:
    norm = torch.linalg.matrix_norm(matrix * around.scale, 2).item() * around.epsilon
    norm *= math.sqrt(matrix.shape[1]) if around.p == math.inf else 1
    rows = Rows(DenseOperator(matrix.unsqueeze(0)), 0)
    still = torch.zeros(1, len(matrix), dtype=torch.float64)
    return RowMotion(norm, len(matrix), [[rows]], around, still)


def drawn(seed: int, size: int = 6, features: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(size, generator=generator, dtype=torch.float64)
    return scores, torch.randn(size, features, generator=generator, dtype=torch.float64)


def overtaken(scores: Tensor, matrix: Tensor, i: int, j: int, by: str, epsilon: float) -> bool:
    """Whether some perturbation of the l2 ball lets score j reach score i: closed form."""
    signs = (1.0,) if by == "value" else (1.0, -1.0)
    sign = 1.0 if by == "value" or scores[i] >= 0 else -1.0
    return any(
        sign * scores[i] - other * scores[j]
        <= epsilon * (sign * matrix[i] - other * matrix[j]).norm()
        for other in signs
    )


@pytest.mark.parametrize("by", ["value", "absolute"])
@pytest.mark.parametrize("seed", range(8))
def test_top_1_on_linear_maps_is_exact(by, seed) -> None:
    """One member: it stays exactly if no other score can reach it."""
    scores, matrix = drawn(seed)
    top = int(first_of(scores[None], 1, by))
    for epsilon in (0.02, 0.1, 0.3):
        found = decide(scores, linear(matrix, region(4, epsilon)), 1, by)
        others = [j for j in range(6) if j != top]
        sure = not any(overtaken(scores, matrix, top, j, by, epsilon) for j in others)
        assert found.stays.item() == sure == (found.kept == 1) == (found.order_kept == 1)
        reach = epsilon * matrix[top].norm()
        torch.testing.assert_close(found.high, scores[[top]] + reach)
        torch.testing.assert_close(found.low, scores[[top]] - reach)
        assert found.sign_kept.item() == (scores[top].abs() > reach)


def tried(scores: Tensor, matrix: Tensor, around: Region) -> Tensor:
    """Maps at corners, at random points and at the worst points of all pairs."""
    size = matrix.shape[1]
    corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=size)), dtype=torch.float64)
    some = torch.randn(400, size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    pairs = (matrix.unsqueeze(0) - matrix.unsqueeze(1)).flatten(0, 1)
    sums = (matrix.unsqueeze(0) + matrix.unsqueeze(1)).flatten(0, 1)
    points = around.furthest(torch.cat([corners, some, pairs, -pairs, sums, -sums]))
    return scores + points @ matrix.T


@pytest.mark.parametrize("by", ["value", "absolute"])
@pytest.mark.parametrize("p", [2.0, math.inf])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_that_was_promised_is_broken(by, p, seed) -> None:
    scores, matrix = drawn(seed, size=7, features=3)
    scale = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    sure = 0
    for k, epsilon in itertools.product((1, 2, 4, 6), (0.03, 0.15)):
        around = region(3, epsilon, p, scale)
        found = decide(scores, linear(matrix, around), k, by)
        maps = tried(scores, matrix, around)
        before = scores.expand_as(maps)
        assert staying(maps, before, k, by).min() >= found.kept >= found.stays.sum()
        tops = first_of(maps, k, by)
        for rank, place in enumerate(found.features.tolist()):
            assert not found.stays[rank] or (tops == place).any(1).all()
            assert (maps[:, place] >= found.low[rank] - 1e-9).all()
            assert (maps[:, place] <= found.high[rank] + 1e-9).all()
            if found.sign_kept[rank]:
                assert (maps[:, place].sign() == scores[place].sign()).all()
        order = found.order_kept
        assert (tops[:, :order] == found.features[:order]).all()
        sure += found.kept
    assert sure > 0


def test_pairs_need_signs() -> None:
    """Of opposite signs the difference of rows says nothing: what cancels there adds up."""
    scores = torch.tensor([1.0, -0.9], dtype=torch.float64)
    matrix = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    around = region(1, 0.2)
    maps = tried(scores, matrix, around)
    assert staying(maps, scores.expand_as(maps), 1, "absolute").min() == 0

    class OneSign(RowMotion):
        def differences(self, place, sign, others, other):
            return super().differences(place, 1.0, others, 1.0)

    motion = linear(matrix, around)
    assert decide(scores, motion, 1, "absolute").kept == 0
    broken = OneSign(10.0, 2, motion.shells, around, motion.seen)
    assert decide(scores, broken, 1, "absolute").kept == 1


def test_rivals_are_all_scores() -> None:
    """The 2k next largest stand still; one far below them overtakes."""
    scores = torch.tensor([1.0, 0.9, 0.8, 0.1], dtype=torch.float64)
    matrix = torch.tensor([[0.0], [0.0], [0.0], [10.0]], dtype=torch.float64)
    motion = linear(matrix, region(1, 0.1))
    assert decide(scores, motion, 1, "value").kept == 0
    few = linear(matrix[:3], region(1, 0.1))
    assert decide(scores[:3], few, 1, "value").kept == 1


def test_where_rivals_are_too_many_the_whole_map_speaks_for_them(monkeypatch) -> None:
    scores, matrix = drawn(3)
    motion = linear(matrix, region(4, 0.05))
    full = decide(scores, motion, 2, "value")
    monkeypatch.setattr("attribound.bounding.reasons.deciding.RIVALS", 0)
    fewer = decide(scores, motion, 2, "value")
    assert fewer.kept <= full.kept
    assert not (fewer.stays & ~full.stays).any()


def test_the_cost_is_that_of_a_dense_search() -> None:
    for seed in range(5):
        scores, _ = drawn(seed)
        ordered = scores.abs().sort(descending=True).values
        for m in (1, 2, 3):
            members, rivals = ordered[3 - m : 3], ordered[3 : 3 + m]
            t = torch.linspace(0, float(ordered[0]), 20001, dtype=torch.float64).unsqueeze(1)
            square = (members - t).clamp_min(0).square().sum(1)
            square += (t - rivals).clamp_min(0).square().sum(1)
            truth = square.min().sqrt().item()
            assert cost(members, rivals) == pytest.approx(truth, rel=1e-3)
            assert cost(members, rivals) <= truth


def test_by_norm_is_attained_as_a_tie() -> None:
    size = torch.tensor([3.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    top = torch.tensor([0, 1])
    tie = 1 / math.sqrt(2)  # 2 and 1 meet at 1.5
    assert by_norm(size, top, tie * (1 - 1e-6)) == 2
    assert by_norm(size, top, tie * (1 + 1e-6)) == 1
    assert by_norm(size, top, 100.0) == 0
    assert by_norm(size, torch.tensor([0, 1, 2]), 100.0) == 2  # only one can come in
    assert decide(size, WholeMap(tie * (1 - 1e-6), 4), 2, "absolute").kept == 2
    assert decide(size, WholeMap(math.inf, 4), 2, "absolute").kept == 0


def test_an_error_brings_back_as_many_as_it_pays_for() -> None:
    """Two of three have left: by 0.1 the first, and both together by what their cost is."""
    size = torch.tensor([3.0, 1.0, 0.9, 1.1, 1.4], dtype=torch.float64)
    members = torch.tensor([0, 1, 2])
    one, both = 0.1 / math.sqrt(2), cost(size[[3, 4]], size[[1, 2]])
    assert at_most(size, members, 0.0) == at_most(size, members, one * (1 - 1e-6)) == 1
    assert at_most(size, members, one * (1 + 1e-6)) == at_most(size, members, 0.999 * both) == 2
    assert at_most(size, members, 1.001 * both) == at_most(size, members, 9.0) == 3
    assert at_most(size, torch.tensor([0, 4, 3]), 0.0) == 3


@pytest.mark.parametrize("seed", range(10))
def test_what_an_error_can_not_bring_back_no_move_does(seed) -> None:
    scores, matrix = drawn(seed)
    members = first_of(matrix[:, :1].T, 3, "value")[0]
    moves = torch.randn(2000, 6, generator=torch.Generator().manual_seed(seed)).double()
    moves = 0.4 * moves / moves.norm(dim=1, keepdim=True)
    stayed = staying(scores + moves, matrix[:, 0].expand(2000, 6), 3, "value")
    assert stayed.max() <= at_most(scores, members, 0.4)


def test_single_ends_and_pairs_of_dense_directions_are_those_of_rows() -> None:
    _, matrix = drawn(0)
    around = region(4, 0.1)
    rows = linear(matrix, around)
    dense = Directed(
        rows.whole,
        6,
        lambda a: (-around.support(-(a @ matrix)), around.support(a @ matrix)),
    )
    places = torch.tensor([4, 1, 0])
    for one, other in zip(rows.features(places), dense.features(places), strict=True):
        torch.testing.assert_close(one, other)
    for sign, other in itertools.product((1.0, -1.0), repeat=2):
        torch.testing.assert_close(
            rows.differences(2, sign, places, other), dense.differences(2, sign, places, other)
        )
