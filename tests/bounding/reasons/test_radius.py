from __future__ import annotations

import math

import pytest
import torch

import attribound as ab
import cases


@pytest.mark.parametrize("by", ["value", "absolute"])
def test_of_a_quadratic_it_is_the_closest_pair(by) -> None:
    """All scores are positive and far from zero: margins over norms of differences of rows."""
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    matrix, scores = attribution.classifier.model.matrices[0], attribution(x)
    found = ab.max_epsilon(attribution, x, keep=1, by=by)
    for row, top in enumerate(scores.argmax(1).tolist()):
        radii = [
            ((scores[row, top] - scores[row, j]) / (matrix[top] - matrix[j]).norm()).item()
            for j in range(4)
            if j != top
        ]
        assert found.epsilon[row].item() == pytest.approx(min(radii), rel=1e-5)
        assert found.epsilon[row] <= min(radii)
    assert "the 1 largest" in repr(found)


def test_at_the_radius_they_stay_and_beyond_they_need_not() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    found = ab.max_epsilon(attribution, x, ab.LinfBall(1), keep=2)
    for row, radius in enumerate(found.epsilon.tolist()):
        for factor, kept in ((1 - 1e-6, True), (1 + 1e-4, False)):
            ball = ab.LinfBall(factor * radius)
            r = ab.reasons(attribution, x[[row]], ball, 2, attack=False)
            assert (r.kept.item() == 2) == kept


def test_under_a_proof_it_is_smaller_and_holds() -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(model)
    first = ab.max_epsilon(attribution, x[:2], keep=2)
    proved = ab.max_epsilon(attribution, x[:2], keep=2, method=ab.Certified())
    assert (proved.epsilon > 0).all()
    assert (proved.epsilon < 1.01 * first.epsilon).all()
    assert proved.claim.name == "certified"
    named = ab.max_epsilon(attribution, x[:2], keep=2, claim="certified")
    assert named.claim is proved.claim
    torch.testing.assert_close(named.epsilon, proved.epsilon, rtol=0, atol=0)
    for row, radius in enumerate(proved.epsilon.tolist()):
        ball = ab.L2Ball(radius)
        r = ab.reasons(attribution, x[[row]], ball, 2, claim="certified")
        assert r.kept.item() == r.attained.kept.item() == 2


def test_what_never_moves_is_kept_at_any_radius_and_a_tie_at_none() -> None:
    slopes = torch.tensor([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0]], dtype=torch.float64)
    model = cases.Quadratic(torch.zeros(2, 3, 3, dtype=torch.float64), slopes)
    x = torch.ones(2, 3, dtype=torch.float64)
    found = ab.max_epsilon(ab.Saliency(model), x, target=torch.tensor([0, 1]), keep=1)
    assert found.epsilon.tolist() == [math.inf, 0.0]


def test_the_claim_of_a_threshold_is_named_or_has_a_method() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    averaged = ab.max_epsilon(attribution, x, claim="smoothed:draws=200", degrees=30)
    assert averaged.claim.name == "smoothed"
    with pytest.raises(ab.InputError, match="every radius, got Certified"):
        ab.max_epsilon(attribution, x, claim="certified", degrees=30)
    with pytest.raises(ab.InputError, match="method of the claim certified, got FirstOrder"):
        ab.max_epsilon(attribution, x, ab.L2Ball(1), method=ab.FirstOrder(), claim="certified")


def test_two_questions_at_once_are_refused() -> None:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0, 0.5])
    with pytest.raises(ab.InputError, match="keep= alone, or one of"):
        ab.max_epsilon(attribution, x, keep=2, degrees=30)
    with pytest.raises(ab.InputError, match="k: expected a whole number from 1 to 3"):
        ab.max_epsilon(attribution, x, keep=4)


def test_a_method_is_given_to_reasons_as_to_bounds() -> None:
    model, x = cases.tabular()
    attribution, ball = ab.Saliency(model), ab.L2Ball(0.05)
    named = ab.reasons(attribution, x, ball, 2, claim="certified", attack=False)
    given = ab.reasons(attribution, x, ball, 2, method=ab.Certified(), attack=False)
    assert given.claim is named.claim
    torch.testing.assert_close(given.low, named.low, rtol=0, atol=0)
    with pytest.raises(ab.InputError, match="method of the claim certified, got MeanValue"):
        ab.reasons(attribution, x, ball, 2, method=ab.MeanValue(), claim="certified")
    with pytest.raises(ab.InputError, match="got the network itself"):
        ab.reasons(model, x, ball, 2)
