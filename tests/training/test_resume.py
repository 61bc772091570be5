"""Exact resume: killed or interrupted at any moment, the weights are the same, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.training import loop as loop_module
from attribound.training import trainer as trainer_module
from attribound.training.config import TrainingConfig
from attribound.training.objectives import CE
from attribound.training.stopping import Stopped
from attribound.training.trainer import Hardware, train
from attribound.values import to_spec
from training_runs import DIGITS, config, images, records, same, weights

CPU = Hardware("cpu")
KILLED = Path(__file__).with_name("killed.py")


@dataclass(frozen=True)
class Interrupting(CE):
    """Cross-entropy that presses Ctrl-C once, in a step given from outside."""

    calls: ClassVar[list[int]] = [0, 0]  # steps so far, the step to interrupt in

    def losses(self, step, attacked):
        self.calls[0] += 1
        if self.calls[0] == self.calls[1]:
            signal.raise_signal(signal.SIGINT)
        return super().losses(step, attacked)


def interrupted(settings: TrainingConfig, out: Path, step: int) -> None:
    Interrupting.calls[:] = [0, step]
    with pytest.raises(Stopped, match=f"stopped after step {step} of .*--resume"):
        train(replace(settings, method=Interrupting()), out, progress=False, hardware=CPU)


def plain(settings: TrainingConfig, out: Path, *, resume: bool = False) -> None:
    train(settings, out, resume=resume, progress=False, hardware=CPU)


def test_killed_at_any_moment_a_training_gives_the_same_weights(tmp_path) -> None:
    """SIGKILL at random moments, resumed until it is finished."""
    settings = config("epochs=24", "checkpoint.steps=3", "evaluation.explained=0")
    plain(settings, tmp_path / "whole")
    document = json.dumps(to_spec(settings))
    command = [sys.executable, str(KILLED), str(tmp_path / "killed"), document]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    began = json.loads(done.stdout)
    assert began == sorted(began)
    assert len(set(began)) >= 4
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "whole"))
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert len(summary["sessions"]) == len(set(began))


def everything(path: Path, *settings: str) -> TrainingConfig:
    """Dropout, augmentation, momentum, clipping, channels_last: all that could be forgotten."""
    table = {
        **DIGITS,
        "data": {"name": images(path), "part": "whole", "held_out": 6},
        "network": {},
        "method": "ce",
        "batch": 18,
        "augmentation": "crop-flip",
        "channels_last": True,
        "clip_gradient": 0.5,
    }
    return config("log_every=2", *settings, table=table)


@pytest.mark.parametrize("step", [1, 2, 4])
def test_interrupted_and_resumed_is_uninterrupted(tmp_path, step) -> None:
    settings = everything(tmp_path)
    plain(settings, tmp_path / "whole")
    interrupted(settings, tmp_path / "stopped", step)
    assert not (tmp_path / "stopped" / "model.safetensors").exists()
    plain(replace(settings, method=Interrupting()), tmp_path / "stopped", resume=True)
    assert same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))
    assert records(tmp_path / "stopped") == records(tmp_path / "whole")


@pytest.mark.parametrize("forgotten", ["optimiser", "dropout", "meter"])
def test_a_resume_that_forgets_something_is_noticed(tmp_path, monkeypatch, forgotten) -> None:
    """The law above can fail."""
    settings = everything(tmp_path)
    plain(settings, tmp_path / "whole")
    interrupted(settings, tmp_path / "stopped", 3)
    if forgotten == "dropout":
        derived = loop_module.derived
        monkeypatch.setattr(
            loop_module, "derived", lambda seed, what, *n: derived(seed + 1, what, *n)
        )
    else:
        load_checkpoint = loop_module.load_checkpoint

        def forgetful(path, model):
            step, state = load_checkpoint(path, model)
            fresh = settings.optimiser.build(model.parameters()).state_dict()
            return step, {**state, forgotten: fresh if forgotten == "optimiser" else None}

        monkeypatch.setattr(loop_module, "load_checkpoint", forgetful)
    plain(replace(settings, method=Interrupting()), tmp_path / "stopped", resume=True)
    assert records(tmp_path / "stopped") != records(tmp_path / "whole")
    if forgotten != "meter":
        assert not same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))


def test_training_leaves_the_global_generator_alone(tmp_path) -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    plain(everything(tmp_path, "epochs=1"), tmp_path / "run")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_another_method_or_changed_code_is_another_training(tmp_path, monkeypatch) -> None:
    settings = everything(tmp_path)
    interrupted(settings, tmp_path / "run", 1)
    with pytest.raises(InputError, match=r"settings\.method\.kind is '.*:Interrupting' there and"):
        plain(settings, tmp_path / "run", resume=True)
    found = trainer_module.fingerprints
    monkeypatch.setattr(
        trainer_module, "fingerprints", lambda value: dict.fromkeys(found(value), "sha256:0")
    )
    with pytest.raises(
        InputError, match=r"code\..*:Interrupting is 'sha256:.*' there and 'sha256:0"
    ):
        plain(replace(settings, method=Interrupting()), tmp_path / "run", resume=True)


def test_a_resume_where_nothing_is_begins(tmp_path) -> None:
    plain(config("epochs=1"), tmp_path / "run", resume=True)
    before = weights(tmp_path / "run")
    plain(config("epochs=1"), tmp_path / "run", resume=True)  # finished: nothing is done again
    assert same(weights(tmp_path / "run"), before)
    with pytest.raises(InputError, match=r"settings\.seed is 0 there and 1 here"):
        plain(config("epochs=1", "seed=1"), tmp_path / "run", resume=True)
