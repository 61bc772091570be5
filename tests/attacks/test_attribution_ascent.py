from __future__ import annotations

import pytest
import torch

import attribound as ab
import cases
import laws

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
    assert found.claim is ab.Claim.ATTAINED


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
    attribution, x = cases.quadratic([2.0, 1.0])
    assert ab.attacks.AttributionAscent(steps=5)(attribution, x, ab.L2Ball(1)).evaluations == 22


def test_a_zero_attribution_has_no_angle() -> None:
    attribution = ab.FunctionAttribution(lambda x, target: 0 * x)
    found = ab.attacks.AttributionAscent()(attribution, torch.ones(1, 2), ab.L2Ball(1), target=0)
    assert (found.cosine.item(), found.degrees.item(), found.label_kept) == (2, 180, None)


def test_refuses_a_negative_number_of_steps() -> None:
    with pytest.raises(ab.InputError, match="steps: expected 0 or more"):
        ab.attacks.AttributionAscent(steps=-1)(*cases.quadratic([1.0]), ab.L2Ball(1))
