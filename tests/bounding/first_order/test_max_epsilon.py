from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases
from attribound.bounding.first_order import FIRST_ORDER
from attribound.bounding.first_order.max_epsilon import largest_epsilon

THRESHOLDS = [{"euclidean": 0.2}, {"cosine": 0.1}, {"cosine": 0.9}, {"degrees": 30.0}]


@pytest.mark.parametrize("norm", [1, 1.5, 2, 3, math.inf])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_bounding_at_the_radius_gives_the_threshold_back(norm, threshold) -> None:
    model, x = cases.tabular()
    attribution = ab.IntegratedGradients(model, steps=3)
    largest = ab.max_epsilon(attribution, x, ab.LpBall(7.0, norm), **threshold)
    ((kind, value),) = threshold.items()
    for row, epsilon in enumerate(largest.epsilon.tolist()):
        bound = ab.bound(attribution, x[row : row + 1], ab.LpBall(epsilon, norm))
        assert getattr(bound, kind).item() == pytest.approx(value, rel=1e-9)
    assert largest.claim is FIRST_ORDER


def test_closed_form_on_a_quadratic_and_the_papers_lost_square() -> None:
    attribution, x = cases.quadratic([4.0, 1.0, 0.5])
    length = attribution(x).norm(dim=1)
    largest = ab.max_epsilon(attribution, x, cosine=0.2).epsilon
    torch.testing.assert_close(largest, length / 4 * math.sqrt(1 - 0.8**2))
    papers = length**2 / 4 * (1 - 0.8**2)
    assert (papers > largest).all()  # over-claimed


def test_ends_of_the_range() -> None:
    attribution, x = cases.quadratic([4.0, 1.0, 0.5])
    length = attribution(x).norm(dim=1)
    assert ab.max_epsilon(attribution, x, euclidean=0).epsilon.tolist() == [0, 0]
    for threshold in ({"cosine": 1}, {"degrees": 90}):
        torch.testing.assert_close(ab.max_epsilon(attribution, x, **threshold).epsilon, length / 4)


def test_an_attribution_that_does_not_move_allows_everything() -> None:
    attribution = ab.Saliency(torch.nn.Linear(3, 2).double())
    x = torch.rand(2, 3).double()
    for threshold in ({"cosine": 0.1}, {"euclidean": 0.1}, {"euclidean": 0}):
        assert ab.max_epsilon(attribution, x, **threshold).epsilon.tolist() == [math.inf] * 2


def test_an_attribution_of_zero_has_no_angle_to_keep() -> None:
    attribution, _ = cases.quadratic([4.0, 1.0])
    zero = ab.InputXGradient(attribution.classifier)
    largest = ab.max_epsilon(zero, torch.zeros(1, 2).double(), degrees=10)
    assert largest.epsilon.tolist() == [0]
    assert largest.status[0] is ab.Status.ZERO_ATTRIBUTION


@pytest.mark.parametrize("thresholds", [{}, {"cosine": 0.1, "degrees": 3}, {"angle": 3}])
def test_wants_exactly_one_threshold(thresholds) -> None:
    with pytest.raises(ab.InputError, match="threshold: expected exactly one of"):
        ab.max_epsilon(*cases.quadratic([1.0]), **thresholds)


@pytest.mark.parametrize(
    "threshold",
    [
        {"cosine": 1.1},
        {"degrees": 91},
        {"euclidean": -1},
        {"euclidean": math.inf},
        {"cosine": math.nan},
    ],
)
def test_refuses_thresholds_that_limit_nothing(threshold) -> None:
    with pytest.raises(ab.InputError, match=f"{next(iter(threshold))}: expected a number from 0"):
        ab.max_epsilon(*cases.quadratic([1.0]), **threshold)


@pytest.mark.parametrize("ball", [0.5, "linf", ab.LinfBall(1, low=0), ab.L2Ball(1, high=1)])
def test_refuses_what_is_no_ball_without_limits(ball) -> None:
    """With limits nothing is proportional to the radius."""
    with pytest.raises(ab.InputError, match="ball: expected a ball without limits on values"):
        ab.max_epsilon(*cases.quadratic([1.0]), ball, euclidean=1)


def test_the_default_is_the_l2_ball() -> None:
    attribution, x = cases.quadratic([4.0, 1.0, 0.5])
    default = ab.max_epsilon(attribution, x, euclidean=1)
    assert default.ball == ab.L2Ball(1)
    torch.testing.assert_close(
        default.epsilon, ab.max_epsilon(attribution, x, ab.L2Ball(3), euclidean=1).epsilon
    )


@pytest.mark.parametrize("threshold", [{"degrees": 0.0}, {"cosine": 0.0}, {"euclidean": 0.0}])
def test_a_map_that_nothing_moves_stays_at_every_radius(threshold) -> None:
    """The gradient of a linear network: also where no change at all is allowed, 0 / 0."""
    torch.manual_seed(0)
    found = ab.max_epsilon(ab.Saliency(torch.nn.Linear(3, 2).eval()), torch.rand(2, 3), **threshold)
    assert found.epsilon.tolist() == [float("inf")] * 2


def test_radii_are_those_of_the_method_that_is_given() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.LinfBall(1)
    paper = ab.FirstOrder(dense=False, norm=None)
    found = ab.max_epsilon(attribution, x, ball, euclidean=0.1, method=paper)
    assert {*found.source} == {"corollary 1"}
    usual = ab.max_epsilon(attribution, x, ball, euclidean=0.1)
    assert (found.epsilon < usual.epsilon).all()
    again = largest_epsilon(attribution, x, ball, euclidean=0.1)
    torch.testing.assert_close(again.epsilon, usual.epsilon, rtol=0, atol=0)
