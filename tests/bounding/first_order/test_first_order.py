from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn

import attribound as ab
import cases
from attribound.results import Status

BALLS = [ab.L2Ball(0.05), ab.LinfBall(0.05), ab.LpBall(0.05, 1), ab.LpBall(0.05, 4)]


@pytest.mark.parametrize("attribution", cases.ATTRIBUTIONS.values(), ids=cases.ATTRIBUTIONS)
@pytest.mark.parametrize("network", cases.NETWORKS.values(), ids=cases.NETWORKS)
def test_any_attribution_on_inputs_of_any_rank(network, attribution) -> None:
    """Euclidean bounds against the dense Jacobian of the attribution itself."""
    model, x = network()
    g = attribution(model)
    bound = ab.bound(g, x, ab.L2Ball(0.05), method=ab.FirstOrder(ab.SpectralSolver(1e-8)))
    jacobian = g.linearize(x).jacobian
    basis = torch.eye(x[0].numel()).double()
    columns = [jacobian.matvec(e.expand(len(x), -1).reshape(x.shape)).flatten(1) for e in basis]
    truth = torch.linalg.svdvals(torch.stack(columns, 2))[:, 0]
    torch.testing.assert_close(bound.xi.lower, truth, rtol=1e-6, atol=0)
    torch.testing.assert_close(bound.euclidean, 0.05 * truth, rtol=1e-6, atol=0)
    assert bound.direction.shape == x.shape


@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_batches_and_memory_limits_change_nothing(ball) -> None:
    model, x = cases.image()
    baseline = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0)).double() / 4
    whole = ab.bound(ab.IntegratedGradients(model, 4, baseline), x, ball)
    small = ab.Classifier(model, memory_limit=1)
    grouped = ab.bound(ab.IntegratedGradients(small, 4, baseline), x, ball)
    singles = [
        ab.bound(ab.IntegratedGradients(model, 4, baseline[i]), x[i : i + 1], ball)
        for i in range(3)
    ]
    for name in ("euclidean", "adjusted", "degrees", "adjusted_cosine", "direction", "target"):
        torch.testing.assert_close(getattr(grouped, name), getattr(whole, name))
        together = torch.cat([getattr(single, name) for single in singles])
        torch.testing.assert_close(together, getattr(whole, name))
    assert grouped.status == whole.status
    assert len(grouped.label.margin) == 3
    assert [f.name for f in fields(grouped)] == [f.name for f in fields(whole)]


def test_bound_is_linear_in_epsilon() -> None:
    model, x = cases.tabular()
    one, two = (ab.bound(ab.Saliency(model), x, ab.LinfBall(e)).euclidean for e in (0.1, 0.2))
    torch.testing.assert_close(two, 2 * one)


def test_zero_attribution_and_unbounded_angles_have_a_status_and_no_nan() -> None:
    attribution, x = cases.quadratic([4.0, 1.0])
    wide = ab.bound(attribution, x, ab.L2Ball(1e3))
    assert wide.degrees.tolist() == [180, 180]
    assert wide.cosine.tolist() == [2, 2]
    assert {str(status) for status in wide.status} == {"angle-unbounded"}
    zero = ab.bound(ab.InputXGradient(attribution.classifier), 0 * x, ab.L2Ball(0.1))
    assert {str(status) for status in zero.status} == {"angle-unbounded+zero-attribution"}
    assert not any(getattr(zero, name).isnan().any() for name in zero.claims)


def test_a_linear_model_does_not_move() -> None:
    bound = ab.bound(ab.Saliency(nn.Linear(3, 2).double()), torch.rand(2, 3).double(), ab.L2Ball(1))
    assert bound.euclidean.tolist() == bound.degrees.tolist() == [0, 0]
    assert bound.c.tolist() == [1, 1]


def test_adjusted_cosine_comes_from_adjusted() -> None:
    model, x = cases.tabular()
    bound = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.3))
    sine = (bound.adjusted / bound.attribution_norm).clamp(max=1)
    torch.testing.assert_close(bound.adjusted_degrees, torch.rad2deg(sine.asin()))
    assert (bound.adjusted_degrees >= bound.degrees).all()


def test_kinked_models_are_refused_and_flagged_on_override() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    x = torch.rand(2, 3).double()
    with pytest.raises(ab.KinkError, match=r"relu in '1' \(ReLU\); bound a smooth copy"):
        ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1))
    allowed = ab.Saliency(ab.Classifier(model, allow_kinks=True))
    assert all(ab.Status.KINKED in s for s in ab.bound(allowed, x, ab.L2Ball(0.1)).status)
    largest = ab.max_epsilon(allowed, x, euclidean=0.1)
    assert all(ab.Status.KINKED in s for s in largest.status)


def test_target_defaults_to_the_prediction() -> None:
    model, x = cases.tabular()
    bound = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1))
    assert torch.equal(bound.target, model(x).argmax(1))
    other = ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1), target=2)
    assert other.target.tolist() == [2] * 5


def test_a_function_without_a_classifier_has_no_label_constraint() -> None:
    attribution = ab.FunctionAttribution(lambda x, target: x**3)
    x = torch.tensor([[1.0, 2.0]]).double()
    bound = ab.bound(attribution, x, ab.L2Ball(0.1), target=0)
    torch.testing.assert_close(bound.xi.lower, torch.tensor([12.0]).double())
    assert bound.label is None


def test_progress_is_shown_when_asked(capsys) -> None:
    model, x = cases.tabular()
    attribution = ab.Saliency(ab.Classifier(model, memory_limit=1))
    ab.bound(attribution, x, ab.L2Ball(0.1))
    assert capsys.readouterr().out == ""
    ab.bound(attribution, x, ab.L2Ball(0.1), method=ab.FirstOrder(progress=True))
    assert "bounding" in capsys.readouterr().out


@pytest.mark.parametrize("ball", [0.1, None, "l2"])
def test_refuses_what_is_no_ball(ball) -> None:
    with pytest.raises(ab.InputError, match="ball: expected a ball"):
        ab.bound(*cases.quadratic([1.0]), ball)


class Exploding(nn.Module):
    """At zero: finite logits and gradients, infinite second derivatives."""

    def forward(self, x: Tensor) -> Tensor:
        score = x.sum(1) ** 1.5
        return torch.stack([score, 0 * score - 1], 1)


def test_infinite_derivatives_are_an_error_not_a_number() -> None:
    with pytest.raises(ab.ProbeError, match="derivatives that agree with finite differences"):
        ab.bound(ab.Saliency(Exploding()), torch.zeros(1, 2).double(), ab.L2Ball(0.1))


def test_scores_that_are_not_the_integral_say_so() -> None:
    """In every claim that rests on them, whatever the groups; the table says what would do."""
    model, x = cases.tabular()
    rough, fine = (
        ab.IntegratedGradients(ab.Classifier(model, memory_limit=1), steps, baseline=3.0)
        for steps in (1, 256)
    )
    found = ab.bound(rough, x, ab.L2Ball(0.1))
    assert found.steps_needed is not None
    needed = found.steps_needed.tolist()
    target = rough.targets(x)
    gap, rise = rough.completeness_gap(x), rough._rise(x, target).abs()
    assert [steps != 0 for steps in needed] == (gap > 0.05 * rise).tolist()
    assert any(needed)
    assert [Status.INCOMPLETE in status for status in found.status] == [s != 0 for s in needed]
    most = max(needed)
    assert f"incomplete ({most} steps would do)" in repr(found)
    assert "steps_needed" in Status.INCOMPLETE.explanation
    adjusted = ab.bound(rough, x, ab.L2Ball(0.1), method=ab.Adjusted())
    assert adjusted.steps_needed is not None
    assert adjusted.steps_needed.tolist() == needed
    whole = ab.bound(fine, x, ab.L2Ball(0.1))
    assert whole.steps_needed is not None
    assert not whole.steps_needed.any()
    assert not any(Status.INCOMPLETE in status for status in whole.status)
    assert ab.bound(ab.Saliency(model), x, ab.L2Ball(0.1)).steps_needed is None
