"""Progress is measured by the functions of scoring, and the model is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
from attribound.attacks import IFIA, PGD, TopK
from attribound.data import arrays, load
from attribound.metrics import attacked_accuracy, attribution_similarity, clean_accuracy
from attribound.models import Activation, MLPConfig, build
from attribound.training.config import HeldOut
from attribound.training.evaluation import evaluate

SETTINGS = HeldOut(attacked=12, attack_steps=2, explained=10, explain_steps=2, ig_steps=3)
BALL = ab.LinfBall(0.05, low=0, high=1)


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    x, y = arrays(load("digits", "test"))
    made = {}
    for name, activation in {"smooth": Activation(20.0), "relu": Activation.relu()}.items():
        model = build(MLPConfig(features=64, hidden=(16,), activation=activation))
        optimiser = torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(60):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
        made[name] = model
    return made, x[:40], y[:40]


def test_scores_are_those_of_scoring(trained) -> None:
    models, x, y = trained
    model = models["smooth"]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scores = evaluate(model, x, y, BALL, SETTINGS, seed=3)
    assert scores.clean_accuracy == clean_accuracy(model, x, y).value > 0.5
    attacked = attacked_accuracy(model, x[:12], y[:12], BALL, PGD(steps=2, seed=3))
    assert scores.adversarial_accuracy == attacked.value
    explained = ab.IntegratedGradients(model, steps=3)
    attack = IFIA(TopK(6), steps=2, seed=3)
    assert scores.similarity == attribution_similarity(explained, x[:10], y[:10], BALL, attack, 6)
    assert scores.unexplained is None
    assert model.training
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_network_with_relu_is_explained_by_its_smooth_copy(trained) -> None:
    models, x, y = trained
    scores = evaluate(models["relu"], x, y, BALL, SETTINGS, seed=0)
    assert scores.similarity is not None
    copy = ab.IntegratedGradients(ab.smooth(models["relu"], 20), steps=3)
    assert scores.similarity == attribution_similarity(
        copy, x[:10], y[:10], BALL, IFIA(TopK(6), steps=2), 6
    )


def test_what_is_not_asked_for_is_not_measured(trained) -> None:
    models, x, y = trained
    settings = HeldOut(attacked=0, explained=0)
    scores = evaluate(models["smooth"], x, y, BALL, settings, seed=0)
    assert (scores.adversarial_accuracy, scores.similarity, scores.unexplained) == (None,) * 3


def test_settings_reach_the_attack_on_attributions(trained) -> None:
    models, x, y = trained
    small = HeldOut(attacked=0, explained=10, explain_epsilon=1e-6, k=3, explain_steps=2)
    similarity = evaluate(models["smooth"], x, y, BALL, small, seed=0).similarity
    assert similarity.k == 3
    assert similarity.pearson.value > 0.9999
    large = evaluate(models["smooth"], x, y, BALL, replace(small, explain_epsilon=0.3), seed=0)
    assert large.similarity.pearson.value < 0.99


def test_a_network_that_cannot_be_explained_does_not_stop_a_training(trained) -> None:
    models, x, y = trained
    scores = evaluate(models["smooth"], x, (y + 1) % 10, BALL, SETTINGS, seed=0)
    if scores.similarity is None:
        assert scores.unexplained == "no example is classified correctly"

    class Constant(torch.nn.Module):
        def forward(self, x):
            logits = torch.zeros(len(x), 10)
            logits[:, 0] = 1.0
            return logits + 0 * x.detach().flatten(1)[:, :1]

    constant = evaluate(Constant(), x, torch.zeros_like(y), BALL, HeldOut(attacked=0), seed=0)
    assert constant.clean_accuracy == 1.0
    assert constant.similarity is None
    assert "model: expected" in constant.unexplained
