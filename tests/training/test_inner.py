"""What inner attacks climb is what the papers write, and its slope is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import objective_laws as laws
import slow_objectives as slow
from attribound.attacks.objectives import Problem
from attribound.attributions import Saliency
from attribound.training import Step
from attribound.training.inner import Adversarial

each = pytest.mark.parametrize(
    "objective",
    [o for o in laws.SMALL.values() if isinstance(o, Adversarial)],
    ids=[n for n, o in laws.SMALL.items() if isinstance(o, Adversarial)],
)


def problem(step: Step) -> Problem:
    return Problem(Saliency(step.model), step.x, step.y, step.x)


def masked_alignment(objective, model, start: Tensor, point: Tensor, label: int) -> Tensor:
    """ART's term at x' alone, on the entries where the label's gradient is largest at the start."""
    logits = model(point[None])[0].tolist()
    rival = max((c for c in range(len(logits)) if c != label), key=lambda c: logits[c])
    first = slow.slope(lambda z: model(z[None])[0, label], start).abs()
    top = first.argsort(descending=True)[: objective.k]
    own = slow.slope(lambda z: model(z[None])[0, label], point)[top]
    other = slow.slope(lambda z: model(z[None])[0, rival], point)[top]
    z = point[top]
    return torch.log(1 + torch.exp((1 - slow.cos(z, own)) - (1 - slow.cos(z, other))))


def formula(objective, step: Step, start: Tensor, moved: Tensor) -> Tensor:
    """The score of each example, by hand: each is a batch of its own."""
    scores = []
    for i in range(len(step.x)):
        x, point, y = step.x[i : i + 1], moved[i : i + 1], step.y[i : i + 1]
        if objective.name == "at":
            scores.append(slow.ce(step.model(point), y))
        elif objective.name == "trades":
            scores.append(slow.kl(step.model(x), step.model(point)))
        elif objective.name == "art":
            scores.append(
                masked_alignment(objective, step.model, start[i], moved[i], int(step.y[i]))
            )
        else:
            if objective.name.startswith("ig"):
                objective = replace(objective, ig_steps=objective.attack_ig_steps)
            terms = slow.terms(objective, step.model, x, point, y)
            whole = sum(terms.values())
            scores.append(terms["ig_norm"] / objective.weight if "ce" in terms else whole)
    return torch.stack(scores).detach()


@each
def test_scores_are_those_of_the_paper(objective: Adversarial) -> None:
    step = laws.step_on("tabular")
    step.model.eval()
    start = laws.nearby(step)
    climbed = objective.climbed(step)
    for moved in (start, start + 0.1, start - 0.05):  # the first one sets ART's entries
        found = climbed.evaluate(problem(step), moved, slope=True).score
        expected = formula(objective, step, start, moved)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@each
def test_slopes_agree_with_finite_differences(objective: Adversarial) -> None:
    step = laws.step_on("tabular")
    step.model.eval()
    points = laws.nearby(step)
    v = torch.randn(points.shape, generator=torch.Generator().manual_seed(4)).double()
    climbed, h = objective.climbed(step), 1e-6
    slope = climbed.evaluate(problem(step), points, slope=True).slope
    ahead, behind = (
        climbed.evaluate(problem(step), points + s * h * v, slope=False).score for s in (1, -1)
    )
    truth = (ahead - behind) / (2 * h)
    torch.testing.assert_close((slope * v).sum(1), truth, rtol=1e-5, atol=1e-7)
    with pytest.raises(AssertionError):
        torch.testing.assert_close((1.01 * slope * v).sum(1), truth, rtol=1e-5, atol=1e-7)
