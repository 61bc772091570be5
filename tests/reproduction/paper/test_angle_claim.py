"""Kendall against T_c across models, in runs where the order is known."""

from __future__ import annotations

from functools import partial

import pytest

import paper_made as made
from reproduction.paper.angle_claim import kendall_and_angle
from reproduction.paper.items import METHODS, RunSpec
from reproduction.paper.judging import FAILS, HOLDS, UNDECIDED, UNKNOWN

MODELS = tuple(METHODS)
FALLING = [0.9 - 0.05 * i for i in range(len(MODELS))]


def _set(ratio: float, tau: float, row: dict) -> None:
    made.bound_of(row, "first_order")["euclidean"] = ratio * row["attribution_norm"]
    for attack in row["attacks"]:
        for trial in attack["repeats"]:
            trial["kendall"] = tau


def runs(kendall: list[float], ratios: dict[str, float] | None = None) -> made.MadeRuns:
    """MNIST, with ratios T_e / |g| that grow from model to model."""
    tables = {}
    for i, (model, tau) in enumerate(zip(MODELS, kendall, strict=False)):
        spec = RunSpec("mnist", model, "paper")
        ratio = (ratios or {}).get(model, 0.1 + 0.1 * i)
        tables[spec] = made.changed(made.audit(spec), partial(_set, ratio, tau))
    return made.MadeRuns(tables)


@pytest.mark.parametrize(
    ("kendall", "verdict", "sign"), [(FALLING, HOLDS, -1), (FALLING[::-1], FAILS, 1)]
)
def test_it_is_the_rank_correlation_across_models(kendall, verdict, sign) -> None:
    own = kendall_and_angle(runs(kendall), "paper")
    assert (own.verdict, own.n) == (verdict, 7)
    rho, p, n = own.numbers["mnist"]["ours"]
    assert (rho, n) == (pytest.approx(sign), 7)
    assert p == pytest.approx(2 / 5040)
    assert own.numbers["cifar10"]["ours"] is None
    assert own.numbers["cifar10"]["paper"][0] < 0


def test_what_chance_would_give_is_not_called_a_success() -> None:
    nearly = [0.8, 0.9, 0.7, 0.85, 0.6, 0.75, 0.78]
    own = kendall_and_angle(runs(nearly), "paper")
    rho, p, _ = own.numbers["mnist"]["ours"]
    assert rho < 0
    assert p > 0.05
    assert own.verdict == UNDECIDED


def test_a_model_without_a_bound_on_its_angle_has_the_largest_and_is_named() -> None:
    """Left out, it could not speak against the claim."""
    against = kendall_and_angle(runs(FALLING, {"ce": 1.5}), "paper")
    rho, _, n = against.numbers["mnist"]["ours"]
    assert (n, against.n) == (7, 7)
    assert rho > -1
    assert "with CE at 180°" in against.text
    speaks_for = kendall_and_angle(runs(FALLING, {MODELS[-1]: 1.5}), "paper")
    assert speaks_for.numbers["mnist"]["ours"][0] == pytest.approx(-1)


def test_only_models_that_were_ranked_are_counted() -> None:
    given = runs(FALLING)
    spec = RunSpec("cifar10", "at", "paper")
    given.given[spec] = made.audit(spec)
    own = kendall_and_angle(given, "paper")
    assert own.numbers["cifar10"]["ours"] is None
    assert own.n == len(MODELS)


def test_three_models_are_too_few() -> None:
    assert kendall_and_angle(runs(FALLING[:3]), "paper").verdict == UNKNOWN
