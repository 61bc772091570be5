from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import attribound as ab
from attribound.attacks import AttributionAscent
from attribound.attacks.attack import SearchAttack
from attribound.attacks.objectives import Problem
from attribound.attacks.steps import InBall
from attribound.models import MLP
from cases import dense_jacobian
from claims import measure as m
from claims.plan import Block
from claims.store import BOUNDS, LINEAR

IMAGES = 5
FIRST, SECOND = m.ATTACKS["first"].attacks, m.ATTACKS["second"]
MEAN_VALUE = m.METHODS[2]


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> MLP:
    """A tiny network and images instead of Fashion-MNIST."""
    torch.manual_seed(0)
    net = MLP(6, (5,), 3, activation=lambda: torch.nn.Softplus(5.0)).eval().requires_grad_(False)
    x = torch.rand(2 * IMAGES, 6)
    m.recognised.cache_clear()
    monkeypatch.setattr(m, "network", lambda name: net)
    monkeypatch.setattr(
        m, "choice", lambda name, seed: (100 + torch.arange(len(x)), x, net(x).argmax(1))
    )
    yield net
    m.recognised.cache_clear()


def block(**changed: object) -> Block:
    return replace(Block("nat", "saliency", ab.L2Ball(0.05), "test", (0, 1, 2)), **changed)


def bounds(row) -> dict[str, float]:
    return {bound["claim"]: bound["euclidean"] for bound in row["bounds"]}


def attacks(row) -> dict[str, float]:
    return {attack["attack"]: attack["deviation"] for attack in row["attacks"]}


def test_rows_have_the_schema_and_the_images_of_their_role() -> None:
    table = m.measure(block(certified=True), 0)
    assert table.schema.equals(BOUNDS)
    rows = table.to_pylist()
    assert [row["sample"] for row in rows] == [100, 102, 104]
    assert [row["place"] for row in rows] == [0, 1, 2]
    for row in rows:
        found = bounds(row)
        assert [*found] == ["first_order", "adjusted", "mean_value", "certified"]
        assert found["first_order"] <= found["mean_value"]
        assert row["strongest"]["deviation"] <= found["certified"]
        assert (row["network"], row["role"], row["correct"]) == ("nat", "test", True)
    other = m.measure(block(role="calibration", images=(0, 2)), 0).to_pylist()
    assert [(row["sample"], row["place"]) for row in other] == [(101, 0), (105, 2)]
    assert all([*bounds(row)] == ["first_order", "adjusted", "mean_value"] for row in other)


def test_numbers_are_those_of_the_library(tiny) -> None:
    ball = ab.LinfBall(0.05)
    rows = m.measure(block(attribution="ig-3", ball=ball, images=(0, 1)), 0).to_pylist()
    _, x, labels = m.choice("nat", 0)
    attribution = ab.IntegratedGradients(tiny, steps=3, quadrature="gauss_legendre")
    bound = ab.bound(attribution, x[[0, 2]], ball, labels[[0, 2]], m.FIRST_ORDER)
    found = [bounds(row) for row in rows]
    assert [each["first_order"] for each in found] == pytest.approx(bound.euclidean.tolist())
    assert [each["adjusted"] for each in found] == pytest.approx(bound.adjusted.tolist())
    assert {(row["ball"], row["epsilon"]) for row in rows} == {("linf", 0.05)}
    assert {row["attribution"] for row in rows} == {"ig-3"}


def test_a_pass_is_the_best_of_its_trials_and_the_larger_pass_counts(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    x, labels, ball = x[1::2], labels[1::2], ab.L2Ball(0.1)
    same = block(ball=ball, role="calibration", images=tuple(range(IMAGES)))
    rows = m.measure(same, 0).to_pylist()
    trials = [attack(ab.Saliency(tiny), x, ball, labels).deviation for attack in (*FIRST, SECOND)]
    first, second = torch.stack(trials[:2]).amax(0).tolist(), trials[2].tolist()
    assert [attacks(row)["first"] for row in rows] == pytest.approx(first)
    assert [attacks(row)["second"] for row in rows] == pytest.approx(second)
    for row in rows:
        name = max(("first", "second"), key=attacks(row).get)
        assert (row["strongest"]["by"], row["strongest"]["deviation"]) == (name, attacks(row)[name])


def test_an_image_that_cannot_be_measured_ends_the_run(monkeypatch) -> None:
    """A row with an error would count as measured."""

    def broken(self, question):
        raise ArithmeticError("no bound today")

    monkeypatch.setattr(ab.Adjusted, "bound", broken)
    with pytest.raises(RuntimeError, match=r"nat saliency l2 0\.05, test 0 to 2: .*no bound today"):
        m.measure(block(), 0)


def test_the_attack_is_not_the_one_that_mean_value_knows() -> None:
    """Else its bounds could not be exceeded, whatever they are."""
    assert MEAN_VALUE.attack not in (*FIRST, SECOND)
    assert ab.MeanValue().attack not in (*FIRST, SECOND)


def random_starts(attack: SearchAttack, problem: Problem, ball: ab.LpBall) -> list[torch.Tensor]:
    """The points at which an attack starts by chance."""
    drawn = [start for start in attack.search.starts if isinstance(start, InBall)]
    return [point for s in drawn for point in s.begin(problem, ball, attack.seed).deltas]


def shared(attack: SearchAttack, known: list[SearchAttack], ball: ab.LpBall) -> int:
    """How many of its random starts are random starts of ``known``."""
    _, x, labels = m.choice("nat", 0)
    problem = Problem(ab.Saliency(m.network("nat")), x, labels, x)
    theirs = [point for each in known for point in random_starts(each, problem, ball)]
    assert theirs, "else there is nothing to differ from"
    mine = random_starts(attack, problem, ball)
    return sum(any(torch.allclose(a, b) for b in theirs) for a in mine)


@pytest.mark.parametrize("ball", [ab.L2Ball(0.1), ab.LinfBall(0.1)])
def test_the_second_pass_starts_where_neither_bounds_nor_first_pass_do(ball) -> None:
    """Drawn and compared; the start of the first pass is one that mean value knows."""
    known = [MEAN_VALUE.attack, *FIRST]
    assert len(SECOND.search.starts) == 1, "random ones, nothing else"
    assert shared(SECOND, known, ball) == 0
    assert shared(replace(SECOND, seed=0), known, ball) == 2, "the check can fail"
    assert shared(FIRST[0], [MEAN_VALUE.attack], ball) == 1, "why there is a second pass"
    assert MEAN_VALUE.restarts == 0, "the search would draw starts of its own"


def test_more_starts_would_still_not_coincide() -> None:
    """Draws are from seed + 1000 i: with other seeds modulo 1000 they never meet."""
    seeds = {attack.seed for attack in (MEAN_VALUE.attack, *FIRST)}
    assert {seed % 1000 for seed in seeds} == {0}
    assert SECOND.seed % 1000


def test_the_linear_optimum_would_add_nothing_to_both_passes(tiny) -> None:
    """Left out of the second pass: the first has climbed from there, as far."""
    _, x, labels = m.choice("nat", 0)
    attribution, ball = ab.Saliency(tiny), ab.LinfBall(0.1)
    whole = AttributionAscent(
        steps=SECOND.steps, random_starts=SECOND.random_starts, seed=SECOND.seed
    )
    first = FIRST[0]
    assert SECOND.search == replace(whole.search, starts=whole.search.starts[1:])
    assert whole.search.starts[0] == first.search.starts[0]
    assert (whole.step, whole.steps) == (first.step, first.steps)
    one, two, three = (a(attribution, x, ball, labels).deviation for a in (first, SECOND, whole))
    torch.testing.assert_close(torch.maximum(one, two), torch.maximum(one, three))


def test_the_linear_problem_is_bracketed_by_brute_force(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 6)

    def gradient(points):
        top = tiny(points).gather(1, labels[::2].unsqueeze(1)).sum()
        return torch.autograd.grad(top, points, create_graph=True)[0]

    table = m.measure(block(ball=None, role="linear", images=tuple(range(IMAGES))), 0)
    assert table.schema.equals(LINEAR)
    for row, matrix in zip(table.to_pylist(), dense_jacobian(gradient, x[::2]), strict=True):
        truth = (signs @ matrix.T).norm(dim=1).max().item()
        assert row["norm_lower"] <= truth * (1 + 1e-5)
        assert truth <= row["norm_upper"] * (1 + 1e-5)
        assert truth <= row["theorem2"] * (1 + 1e-5)
        assert row["theorem2"] == pytest.approx((matrix.T @ matrix).abs().sum().sqrt().item())
        assert row["theorem2_products"] == 6


def test_rows_depend_on_weights_claims_attacks_and_seed_but_not_on_the_others(
    tiny, monkeypatch
) -> None:
    before = m.described(block(), 0)
    assert m.described(block(images=(7,)), 0) == before
    assert m.described(block(), 1) != before
    assert m.described(block(certified=True), 0) != before
    assert m.described(block(ball=ab.L2Ball(0.1)), 0) != before
    assert m.measure(block(images=(0,)), 0)["settings"].to_pylist() == [before]
    assert json.loads(before)["attacks"]["second"]["seed"] == 500
    with monkeypatch.context() as patch:
        patch.setitem(m.ATTACKS, "second", replace(SECOND, steps=3))
        assert m.described(block(), 0) != before
    m.recognised.cache_clear()
    tiny[1].weight.mul_(2)
    assert m.described(block(), 0) != before
