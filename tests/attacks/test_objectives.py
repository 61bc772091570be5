from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import attribound as ab
import cases
from attribound.attacks.measures import Angle, Distance, MassCentre, Targeted, TopK
from attribound.attacks.objectives import Objective, PredictionLoss, Problem

OBJECTIVES = {
    "cross_entropy": PredictionLoss("cross_entropy"),
    "kl": PredictionLoss("kl"),
    "margin": PredictionLoss("margin"),
    "distance": Distance(),
    "angle": Angle(),
    "top_k": TopK(5),
    "mass_centre": MassCentre(),
    "targeted": Targeted(torch.arange(72).view(2, 6, 6) % 3 == 0),
}


def problem() -> Problem:
    model, x = cases.image()
    attribution = ab.IntegratedGradients(model, steps=3)
    target = model(x).argmax(1)
    return Problem(attribution, x, target, attribution(x, target))


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_slope_agrees_with_finite_differences(objective: Objective) -> None:
    task = problem()
    torch.manual_seed(0)
    points = task.x + 0.1 * torch.randn_like(task.x)
    v = torch.randn_like(points)
    h = 1e-6
    slope = objective.evaluate(task, points, slope=True).slope
    ends = [objective.evaluate(task, points + s * h * v, slope=False).score for s in (1, -1)]
    torch.testing.assert_close(
        (slope * v).flatten(1).sum(1), (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-7
    )


def test_losses_are_the_usual_ones() -> None:
    task = problem()
    points = task.x + 0.1
    logits, clean = (task.classifier.model(z).detach() for z in (points, task.x))

    def score(name):
        return PredictionLoss(name).evaluate(task, points, slope=False).score

    torch.testing.assert_close(
        score("cross_entropy"), F.cross_entropy(logits, task.target, reduction="none")
    )
    p, q = clean.softmax(1), logits.softmax(1)
    torch.testing.assert_close(score("kl"), (p * (p / q).log()).sum(1))
    for row in range(3):
        others = torch.cat([logits[row, : task.target[row]], logits[row, task.target[row] + 1 :]])
        expected = others.max() - logits[row, task.target[row]]
        torch.testing.assert_close(score("margin")[row], expected)


def test_costs_count_model_gradients() -> None:
    assert PredictionLoss().cost(problem()) == 1
    assert Distance().cost(problem()) == 6  # three points, value and product


def test_the_clean_prediction_is_computed_once() -> None:
    model, x = cases.image()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    attribution = ab.Saliency(model)
    task = Problem(attribution, x, torch.zeros(3, dtype=torch.long), x)
    for _ in range(4):
        PredictionLoss("kl").evaluate(task, x + 0.1, slope=True)
    assert len(calls) == 5
    assert torch.equal(task.clean_logits, model(x))
    assert not task.clean_logits.requires_grad


def test_refuses_an_unknown_loss() -> None:
    with pytest.raises(ab.InputError, match="loss: expected one of cross_entropy, kl, margin"):
        PredictionLoss("hinge")


def test_predictions_need_a_classifier() -> None:
    attribution = ab.FunctionAttribution(lambda x, target: x**2)
    with pytest.raises(ab.InputError, match="one that knows its classifier"):
        ab.attacks.PGD(steps=1)(attribution, torch.rand(2, 3).double(), ab.L2Ball(1), target=0)


@pytest.mark.parametrize("name", ["cross_entropy", "kl", "margin"])
def test_losses_climb_alike_with_and_without_autograd(name) -> None:
    model, x = cases.image()
    target = model(x).argmax(1)
    found = []
    for structured in (True, False):
        attribution = ab.Saliency(ab.Classifier(model, structured=structured))
        assert attribution.classifier.is_structured(x) is structured
        task = Problem(attribution, x, target, x)
        found.append(PredictionLoss(name).evaluate(task, x + 0.1, slope=True))
    torch.testing.assert_close(found[0].score, found[1].score, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[0].slope, found[1].slope, rtol=1e-10, atol=1e-12)


def test_rows_of_a_problem_know_their_own_logits_and_baselines() -> None:
    model, x = cases.image()
    target, baseline = model(x).argmax(1), 0.1 * torch.rand_like(x)
    attribution = ab.IntegratedGradients(model, 3, baseline)
    task = Problem(attribution, x, target, attribution(x, target))
    rows = torch.tensor([2, 0, 2])
    part = task.rows(rows)
    torch.testing.assert_close(part.clean_logits, model(x)[rows].detach())
    torch.testing.assert_close(part.attribution(part.x, part.target), part.clean)
