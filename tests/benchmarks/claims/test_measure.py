from __future__ import annotations

import math
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
from claims.plan import Part, Settings
from claims.store import CLAIMS, SCHEMA

IMAGES = 5


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> MLP:
    """A tiny network and images instead of Fashion-MNIST."""
    torch.manual_seed(0)
    net = MLP(6, (5,), 3, activation=lambda: torch.nn.Softplus(5.0)).eval().requires_grad_(False)
    x = torch.rand(2 * IMAGES, 6)
    monkeypatch.setattr(m, "network", lambda name: net)
    monkeypatch.setattr(
        m, "choice", lambda name, seed: (100 + torch.arange(len(x)), x, net(x).argmax(1))
    )
    return net


def test_rows_have_columns_of_the_schema_and_the_images_of_their_role() -> None:
    settings = Settings(certified=2)
    part = Part("mlp-at-b5", "saliency", ab.L2Ball(0.05), "test", 0, range(3))
    rows = m.measure(part, settings)
    assert all(set(row) <= set(SCHEMA.names) for row in rows)
    assert [row["sample"] for row in rows] == [100, 102, 104]
    assert [row.get("certified") is not None for row in rows] == [True, True, False]
    assert all(row["mean_value"] >= row["first_order"] for row in rows)
    assert all(row["attack"] <= row["certified"] for row in rows[:2])
    other = m.measure(
        Part("nat", "saliency", ab.L2Ball(0.05), "calibration", 0, range(3)), settings
    )
    assert [row["sample"] for row in other] == [101, 103, 105]
    assert all(row["mean_value"] >= row["first_order"] for row in other)  # the base of one
    assert all(row.get("certified") is None for row in other)


def test_numbers_are_those_of_the_library(tiny) -> None:
    ball = ab.LinfBall(0.05)
    part = Part("nat", "ig-3", ball, "test", 0, range(2))
    rows = m.measure(part, Settings())
    _, x, labels = m.choice("nat", 0)
    attribution = ab.IntegratedGradients(tiny, steps=3, quadrature="gauss_legendre")
    bound = ab.bound(attribution, x[[0, 2]], ball, labels[[0, 2]], m.FIRST_ORDER)
    assert [row["first_order"] for row in rows] == pytest.approx(bound.euclidean.tolist())
    assert [row["adjusted"] for row in rows] == pytest.approx(bound.adjusted.tolist())
    assert [row["p"] for row in rows] == [math.inf] * 2


def test_the_attack_is_the_best_of_its_trials(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    attribution, ball = ab.Saliency(tiny), ab.L2Ball(0.1)
    rows = m.attacked_rows(attribution, x, ball, labels, m.ATTACKS)
    every = [attack(attribution, x, ball, labels).deviation for attack in m.ATTACKS.values()]
    assert [row["attack"] for row in rows] == torch.stack(every).amax(0).tolist()


def test_the_attack_is_not_the_one_that_mean_value_knows() -> None:
    """Else its bounds could not be broken, whatever they are."""
    assert ab.MeanValue().attack not in m.ATTACKS.values()


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
    method = m.BOUNDS["mean_value"]
    known = [method.attack, *m.ATTACKS.values()]
    for attack in m.ATTACKS_AGAIN.values():
        assert len(attack.search.starts) == 1, "random ones, nothing else"
        assert shared(attack, known, ball) == 0
        assert shared(replace(attack, seed=0), known, ball) == 2, "the check can fail"
    assert shared(m.ATTACKS["ascent"], [method.attack], ball) == 1, "why there is a second pass"
    assert method.restarts == 0, "the search would draw starts of its own"


def test_more_starts_would_still_not_coincide() -> None:
    """Draws are from seed + 1000 i: with other seeds modulo 1000 they never meet."""
    seeds = {attack.seed for attack in [m.BOUNDS["mean_value"].attack, *m.ATTACKS.values()]}
    assert {seed % 1000 for seed in seeds} == {0}
    assert all(attack.seed % 1000 for attack in m.ATTACKS_AGAIN.values())


def test_the_linear_optimum_would_add_nothing_to_both_passes(tiny) -> None:
    """Left out of the second pass: the first has climbed from there, as far."""
    _, x, labels = m.choice("nat", 0)
    attribution, ball = ab.Saliency(tiny), ab.LinfBall(0.1)
    (again,) = m.ATTACKS_AGAIN.values()
    whole = AttributionAscent(steps=again.steps, random_starts=again.random_starts, seed=again.seed)
    first = m.ATTACKS["ascent"]
    assert again.search == replace(whole.search, starts=whole.search.starts[1:])
    assert whole.search.starts[0] == first.search.starts[0]
    assert (whole.step, whole.steps) == (first.step, first.steps)
    one, two, three = (a(attribution, x, ball, labels).deviation for a in (first, again, whole))
    torch.testing.assert_close(torch.maximum(one, two), torch.maximum(one, three))


def test_a_second_pass_has_the_attack_of_the_same_images_and_no_bounds(tiny) -> None:
    part = Part("nat", "saliency", ab.L2Ball(0.1), "calibration", 0, range(3), again=True)
    rows = m.measure(part, Settings())
    ordinary = m.measure(replace(part, again=False), Settings())
    assert {row["role"] for row in rows} == {"again-calibration"}
    assert [row["sample"] for row in rows] == [row["sample"] for row in ordinary]
    assert {row["attack_by"] for row in rows} == set(m.ATTACKS_AGAIN)
    assert not any(name.startswith(CLAIMS) for row in rows for name in row)
    _, x, labels = m.choice("nat", 0)
    (again,) = m.ATTACKS_AGAIN.values()
    found = again(ab.Saliency(tiny), x[[1, 3, 5]], part.ball, labels[[1, 3, 5]])
    assert [row["attack"] for row in rows] == found.deviation.tolist()


def test_the_settings_of_each_pass_are_its_own(monkeypatch) -> None:
    """What was measured before there was a second pass does not depend on it."""
    part = Part("mlp-at-b5", "saliency", ab.L2Ball(0.05), "test", 0, range(3))
    second = replace(part, again=True)
    before, before_again = m.described(part, Settings()), m.described(second, Settings())
    assert "mean_value" not in before_again
    monkeypatch.setattr(m, "ATTACKS_AGAIN", {"random ascent": m.RandomAscent(seed=1)})
    assert m.described(part, Settings()) == before
    assert m.described(second, Settings()) != before_again
    m.fingerprint.cache_clear()


def test_the_linear_problem_is_bracketed_by_brute_force(tiny) -> None:
    _, x, labels = m.choice("nat", 0)
    attribution = ab.Saliency(tiny)
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 6)

    def gradient(points):
        top = tiny(points).gather(1, labels.unsqueeze(1)).sum()
        return torch.autograd.grad(top, points, create_graph=True)[0]

    matrices = dense_jacobian(gradient, x)
    for row, matrix in zip(m.linear_rows(attribution, x, labels), matrices, strict=True):
        truth = (signs @ matrix.T).norm(dim=1).max().item()
        assert row["norm_lower"] <= truth * (1 + 1e-5)
        assert truth <= row["norm_upper"] * (1 + 1e-5)
        assert truth <= row["theorem2"] * (1 + 1e-5)
        assert row["theorem2"] == pytest.approx((matrix.T @ matrix).abs().sum().sqrt().item())
        assert row["theorem2_products"] == 6


def test_parts_depend_on_weights_and_claims(tiny) -> None:
    part = Part("mlp-at-b5", "saliency", ab.L2Ball(0.05), "test", 0, range(3))
    m.fingerprint.cache_clear()
    before = m.described(part, Settings())
    assert m.described(part, Settings()) == before
    assert m.described(part, Settings(certified=1)) != before
    m.fingerprint.cache_clear()
    tiny[1].weight.mul_(2)
    assert m.described(part, Settings()) != before
    m.fingerprint.cache_clear()
