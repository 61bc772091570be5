"""Trainings: exact resume, records, failures, devices."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from attribound import models
from attribound.basics.errors import InputError
from attribound.data import arrays, load
from attribound.metrics import clean_accuracy
from attribound.training import loop as loop_module
from attribound.training.config import Cadence, TrainingConfig
from attribound.training.finite import NotFiniteError
from attribound.training.network import first_network
from attribound.training.objectives import CE
from attribound.training.parts import load_parts
from attribound.training.trainer import Hardware, train
from attribound.values import to_spec
from training_runs import config, records, same, weights

CPU = Hardware("cpu")
KILLED = Path(__file__).with_name("killed.py")


def plain(settings: TrainingConfig, out: Path, *, resume: bool = False) -> None:
    train(settings, out, resume=resume, progress=False, hardware=CPU)


def test_training_is_what_a_plain_loop_does(tmp_path) -> None:
    """Ten lines of PyTorch with the order and the rates of the config give the same weights."""
    settings = config("method=ce", "optimiser=sgd", "optimiser.lr=0.2", "schedule=cosine")
    result = train(settings, tmp_path / "run", progress=False, hardware=CPU)
    parts = load_parts(settings.data)
    model = first_network(settings.network, None, (1, 8, 8), 10, settings.seed).model
    x, y = arrays(parts.train)
    optimiser = torch.optim.SGD(model.parameters(), 0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 16)
    for step in range(16):
        rows = loop_module.batch_rows(len(x), 64, 0, step, 8)
        optimiser.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimiser.step()
        schedule.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(result.model.state_dict()[name], value)
    held_out = arrays(parts.held_out)
    assert result.summary["evaluation"]["clean_accuracy"] == (
        clean_accuracy(model, *held_out).value
    )


def test_a_training_learns(tmp_path) -> None:
    quick = ("epochs=8", "optimiser.lr=0.02", "ball.epsilon=0.02", "evaluation.explained=8")
    settings = config(*quick)
    result = train(settings, tmp_path / "run", progress=False, hardware=CPU)
    assert not result.model.training
    assert clean_accuracy(result.model, *arrays(load("digits", "test"))).value > 0.8
    assert result.summary["evaluation"]["similarity"]["kendall"]["n"] > 0


def test_what_a_training_writes(tmp_path) -> None:
    out, settings = tmp_path / "run", config()
    result = train(settings, out, progress=False, hardware=CPU)
    files = {f.name for f in out.iterdir()} - {"lock"}
    assert files == {"config.json", "log.jsonl", "model.safetensors", "summary.json"}
    document = json.loads((out / "config.json").read_text())
    assert document["settings"] == to_spec(settings, whole=True)
    assert document["network"] == models.MLPConfig(features=64, hidden=(12,)).to_json()
    assert document["data"]["train"] == 480
    assert document["versions"]["torch"] == torch.__version__
    written = records(out)
    assert [(r["kind"], r["step"]) for r in written] == [
        ("steps", 7),
        ("evaluation", 8),
        ("steps", 14),
        ("steps", 16),
        ("evaluation", 16),
    ]
    assert set(written[0]["terms"]) == {"ce_attacked"}
    assert written[-1]["similarity"]["misclassified"] + written[-1]["similarity"]["top_k"]["n"] == 4
    assert json.loads((out / "summary.json").read_text()) == result.summary
    assert result.summary["sessions"][0]["from_step"] == 0


def test_epsilon_and_rate_are_in_the_log(tmp_path) -> None:
    settings = config("epsilon_warm_up.epochs=1", "schedule=cosine", "log_every=4")
    plain(settings, tmp_path / "run")
    steps = [r for r in records(tmp_path / "run") if r["kind"] == "steps"]
    assert [r["epsilon"] for r in steps] == pytest.approx([0.05, 0.1, 0.1, 0.1])
    factors = [settings.schedule.factor(step, 16, 8) for step in (3, 7, 11, 15)]
    assert [r["lr"] for r in steps] == pytest.approx([1e-3 * factor for factor in factors])


def test_a_warm_start_is_where_a_training_begins(tmp_path) -> None:
    plain(config("epochs=1"), tmp_path / "first")
    file = tmp_path / "first" / "model.safetensors"
    settings = config("epochs=1", "optimiser.lr=1e-30", f"warm_start={file}")
    plain(replace(settings, checkpoint=Cadence(None, None)), tmp_path / "second")
    assert same(weights(tmp_path / "second"), weights(tmp_path / "first"))


@dataclass(frozen=True)
class Poisoned(CE):
    """Cross-entropy that is not finite for one example."""

    victim = torch.zeros(0)

    def losses(self, step, attacked):
        hit = (step.x == self.victim.to(step.x)).flatten(1).all(1)
        logits = step.model(attacked)
        return {"ce": cross_entropy(logits, step.y) + (1 / (~hit).to(logits) - 1).mean()}


def test_a_loss_that_is_not_finite_stops_and_says_where(tmp_path, monkeypatch) -> None:
    settings = config("checkpoint.steps=2", "epochs=1")
    parts = load_parts(settings.data)
    example = int(loop_module.batch_rows(480, 64, 0, 5, 8)[3])
    monkeypatch.setattr(Poisoned, "victim", parts.train[example][0])
    with pytest.raises(
        NotFiniteError,
        match=rf"step 6, epoch 1: ce is inf; 1 of 64 .*training examples {example}; first layer",
    ):
        train(replace(settings, method=Poisoned()), tmp_path / "run", progress=False, hardware=CPU)
    kept = tmp_path / "run" / "checkpoints" / "step-000000004"
    assert all(torch.isfinite(w).all() for w in weights(kept).values())


@dataclass(frozen=True)
class Rooted(CE):
    """Finite, with an infinite slope."""

    def losses(self, step, attacked):
        weight = next(step.model.parameters())
        return {"ce": cross_entropy(step.model(attacked), step.y) + (weight * 0).sum().sqrt()}


def test_a_gradient_that_is_not_finite_stops_and_says_where(tmp_path) -> None:
    with pytest.raises(NotFiniteError, match=r"step 1, epoch 1: the gradient of 1\.weight is not"):
        train(replace(config(), method=Rooted()), tmp_path / "run", progress=False, hardware=CPU)


def test_a_range_that_the_data_leaves_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"x: expected values from 0 to 0\.5"):
        plain(config("ball.high=0.5"), tmp_path / "run")


def test_no_example_held_out_is_no_evaluation(tmp_path) -> None:
    result = train(
        config("data.held_out=0", "epochs=1"), tmp_path / "run", progress=False, hardware=CPU
    )
    assert result.summary["evaluation"] is None


def test_threads_are_put_back(tmp_path) -> None:
    before = torch.get_num_threads()
    plain(config("epochs=1", f"threads={before + 1}"), tmp_path / "run")
    assert torch.get_num_threads() == before


def test_an_example_outside_the_range_is_noticed_when_it_comes(tmp_path) -> None:
    x = np.full((40, 3), 0.5, np.float32)
    x[7, 1] = 1.5
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(40) % 2)
    table = {"data": {"name": str(tmp_path / "x.npz"), "part": "whole", "held_out": 0}}
    with pytest.raises(InputError, match=r"x: expected values from 0 to 1, .* to 1\.5"):
        plain(config("network.hidden=[4]", table=table), tmp_path / "run")


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch) -> None:
    settings = config()
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(InputError, match=r"pip install 'attribound\[train\]'"):
        plain(settings, tmp_path / "run")
