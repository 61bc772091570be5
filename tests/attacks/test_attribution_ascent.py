from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
import laws
from attribound.results import ATTAINED

BALLS = [ab.L2Ball(0.1), ab.LinfBall(0.1), ab.LpBall(0.1, 1), ab.LpBall(0.1, 3)]


@pytest.mark.parametrize("ball", BALLS, ids=repr)
@pytest.mark.parametrize("network", cases.NETWORKS.values(), ids=cases.NETWORKS)
def test_stays_in_the_ball_and_reports_what_it_found(network, ball) -> None:
    model, x = network()
    attribution = ab.IntegratedGradients(model, steps=3)
    found = ab.attacks.AttributionAscent(steps=3)(attribution, x, ball)
    laws.inside(found.delta, ball)
    target = model(x).argmax(1)
    change = attribution(x + found.delta, target) - attribution(x, target)
    torch.testing.assert_close(found.deviation, change.flatten(1).norm(dim=1))
    assert torch.equal(found.label_kept, model(x + found.delta).argmax(1) == target)
    assert found.claim is ATTAINED


def test_attains_the_linearised_optimum_on_a_quadratic() -> None:
    attribution, x = cases.quadratic([-5.0, 4.9, 3.0, 1.0])
    found = ab.attacks.AttributionAscent(steps=50)(attribution, x, ab.L2Ball(0.1))
    torch.testing.assert_close(found.deviation, torch.full((2,), 0.5).double(), rtol=1e-3, atol=0)


def test_exceeds_the_first_order_bound_where_the_attribution_bends() -> None:
    """Why first-order is a claim and not a guarantee."""
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.3)
    bound = ab.bound(attribution, x, ball)
    found = ab.attacks.AttributionAscent()(attribution, x, ball)
    assert (found.deviation > bound.euclidean).any()
    with pytest.raises(AssertionError):
        laws.attack_below(found, bound)


def test_more_steps_never_find_less() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.LinfBall(0.2)
    found = [
        ab.attacks.AttributionAscent(steps=n)(attribution, x, ball).deviation for n in (0, 2, 8)
    ]
    laws.never_below(found[1], found[0])
    laws.never_below(found[2], found[1])


def test_counts_its_evaluations() -> None:
    """Two starts of five slopes (two gradients each) and a value, and the search for the start."""
    attribution, x = cases.quadratic([2.0, 1.0])
    small = ab.attacks.AttributionAscent(steps=5, step=ab.attacks.Ascend())
    spent = small(attribution, x, ab.L2Ball(1)).evaluations
    start = ab.attacks.AttributionAscent(steps=0)(attribution, x, ab.L2Ball(1)).evaluations
    assert spent - start == 2 * 5 * 2
    assert start >= 2 + 2


def test_projected_gradients_angles_and_random_starts() -> None:
    model, x = cases.image()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.5)
    jump = ab.attacks.AttributionAscent()(attribution, x, ball)
    gradual = ab.attacks.AttributionAscent(step=ab.attacks.Ascend())(attribution, x, ball)
    angle = ab.attacks.AttributionAscent(ab.attacks.Angle())(attribution, x, ball)
    more = ab.attacks.AttributionAscent(random_starts=2)(attribution, x, ball)
    torch.testing.assert_close(gradual.deviation, jump.deviation, rtol=0.2, atol=0)
    assert (angle.degrees >= 0.9 * jump.degrees).all()
    laws.never_below(more.deviation, jump.deviation)
    assert more.evaluations > jump.evaluations
