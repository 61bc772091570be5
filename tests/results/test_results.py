from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.first_order import ADJUSTED, FIRST_ORDER
from attribound.results import Remainder, Status, join

BALL = ab.L2Ball(0.1)


@pytest.fixture(scope="module")
def bound() -> ab.Bound:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    return ab.bound(attribution, x, BALL)


def test_every_claim_and_status_is_a_sentence() -> None:
    for claim in ab.claims():
        assert claim.promise.endswith(".")
    for flag in Status.__members__.values():
        assert flag.explanation.endswith(".")
    assert str(FIRST_ORDER) == "first-order"


def test_statuses_add_up() -> None:
    both = Status.KINKED | Status.ITERATION_LIMIT
    assert str(both) == "iteration-limit+kinked"
    assert "max_iterations" in both.explanation
    assert "attribound.smooth" in both.explanation
    assert str(Status.CONVERGED) == "converged"


def test_every_number_of_a_bound_has_a_claim(bound) -> None:
    assert bound.claims["euclidean"] is FIRST_ORDER
    assert bound.claims["adjusted_degrees"] is ADJUSTED
    for name in bound.claims:
        assert len(getattr(bound, name)) == len(bound) == 2


def test_c_is_the_factor_of_the_paper(bound) -> None:
    raised = replace(
        bound,
        euclidean=torch.tensor([0.5, 0.0]).double(),
        adjusted=torch.tensor([0.75, 0.0]).double(),
    )
    assert raised.c.tolist() == [1.5, 1.0]


def test_relative_has_no_scale(bound) -> None:
    torch.testing.assert_close(bound.relative, bound.euclidean / bound.attribution_norm)


def test_tables_name_claim_ball_and_status(bound) -> None:
    text = repr(bound)
    assert "l2 ball of radius 0.1, claim: first-order" in text
    assert text.count("theorem 1") == 2
    assert "converged" in text
    assert "fails with probability <= 1e-06" in repr(bound.xi)
    assert "runner-up" in repr(bound.label)
    estimate = ab.SpectralSolver()(
        cases.quadratic([2.0, 1.0])[0].linearize(torch.ones(1, 2).double()).jacobian
    )
    assert "residual" in repr(estimate)
    found = ab.attacks.AttributionAscent(steps=1)(*cases.quadratic([2.0, 1.0]), BALL)
    assert "claim: attained" in repr(found)
    assert "?" in repr(replace(found, label_kept=None))
    assert len(found) == 2
    largest = ab.max_epsilon(*cases.quadratic([2.0, 1.0]), euclidean=0.2)
    assert "radius with euclidean <= 0.2 for your network, claim: first-order" in repr(largest)


def test_remainder_is_relative_to_the_deviation() -> None:
    zero, one = torch.zeros(1), torch.ones(1)
    assert Remainder(zero, zero).relative.tolist() == [0]
    assert Remainder(one, 4 * one).relative.tolist() == [0.25]
    assert "eta" in repr(Remainder(one, one))


def test_join_concatenates_what_is_per_example(bound) -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    parts = [ab.bound(attribution, x[i : i + 1], BALL) for i in range(2)]
    whole = join(parts)
    torch.testing.assert_close(whole.euclidean, bound.euclidean)
    torch.testing.assert_close(whole.label.margin, bound.label.margin)
    assert (whole.status, whole.epsilon, len(whole)) == (bound.status, 0.1, 2)
    assert join([None, None]) is None
    assert whole.claim is FIRST_ORDER
    assert whole.ball == BALL
    assert join([parts[0]]) is parts[0]
