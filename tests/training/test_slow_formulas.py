"""The terms of every method are what its paper writes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import objective_laws as laws
import slow_objectives as slow
from attribound.attributions import IntegratedGradients
from attribound.training import TRADES, AdvAAT, Step, TrainingObjective

each = pytest.mark.parametrize("objective", laws.SMALL.values(), ids=laws.SMALL)


def compare(objective: TrainingObjective, step: Step) -> None:
    moved = laws.nearby(step)
    torch.manual_seed(0)  # dropout
    terms = objective.losses(replace(step, model=copy.deepcopy(step.model)), moved)  # batch norm
    torch.manual_seed(0)
    expected = slow.terms(objective, step.model, step.x, moved, step.y)
    assert tuple(terms) == tuple(expected) == objective.terms
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, rtol=1e-10, atol=1e-12, msg=name)


@each
@pytest.mark.parametrize("network", ["tabular", "image", "sequence", "signal"])
def test_terms(objective: TrainingObjective, network: str) -> None:
    """On ``image`` with dropout and batch norm in train mode, on ``sequence`` with attention."""
    step = laws.step_on(network)
    if network == "sequence":
        step.model.eval()  # as dropout comes with fused attention, which has no second derivative
    compare(objective, step)


@each
def test_terms_of_a_relu_network(objective: TrainingObjective) -> None:
    """ART takes its gradients from a softplus copy, the others from the network itself."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    compare(objective, replace(laws.step_on("tabular"), model=model.double().train()))


weighted = pytest.mark.parametrize(
    "objective",
    [o for o in laws.SMALL.values() if isinstance(o, TRADES) or hasattr(o, "weight")],
    ids=lambda o: o.name,
)


@weighted
def test_weights_scale_their_terms(objective: TrainingObjective) -> None:
    step = laws.step_on("tabular")
    moved = laws.nearby(step)
    setting = "beta" if isinstance(objective, TRADES) else "weight"
    heavy = replace(objective, **{setting: 2 * getattr(objective, setting)})
    before, after = (o.losses(step, moved) for o in (objective, heavy))
    ratios = [(after[name] / before[name]).item() for name in objective.terms]
    assert ratios == pytest.approx([1.0] * (len(ratios) - 1) + [2.0])


class OneNodeMore(AdvAAT):
    """Uses more nodes than it says."""

    name = "advaat"  # whose formula it must obey

    def losses(self, step: Step, attacked: Tensor) -> dict[str, Tensor]:
        return AdvAAT(ig=IntegratedGradients(steps=self.ig.steps + 1)).losses(step, attacked)


def test_a_formula_rejects_a_wrong_term() -> None:
    step = laws.step_on("tabular")
    compare(AdvAAT(ig=IntegratedGradients(steps=3)), step)
    with pytest.raises(AssertionError, match="attribution"):
        compare(OneNodeMore(ig=IntegratedGradients(steps=3)), step)
