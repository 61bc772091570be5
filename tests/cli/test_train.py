"""``attribound train``: settings from file and options, outputs, exit codes."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import attribound as ab
from attribound import training, zoo
from attribound.cli import train as command
from attribound.cli.app import app
from attribound.training.config import InitialWeights, TrainingConfig
from attribound.training.objectives import AT, TRADES, TRADESWithIGR
from attribound.training.stopping import Stopped
from attribound.training.trainer import TrainingResult
from training_runs import records

runner = CliRunner()

TOML = """
epochs = 2
threads = 1
batch = 100

[data]
name = "digits"
limit = 220
held_out = 20

[network]
hidden = [8]

[method]
kind = "trades"
beta = 2.0
steps = 2

[evaluation]
attacked = 10
attack_steps = 2
explained = 0
"""


@pytest.fixture
def toml(tmp_path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(TOML)
    return file


@pytest.fixture
def asked(monkeypatch) -> list:
    """What the command asked the trainer for, without training."""
    calls = []

    def run(config, out, **options):
        calls.append((config, out, options))
        summary = {"steps": 1, "seconds": 1.0, "evaluation": None}
        return TrainingResult(None, summary, options["hardware"].devices - 1)

    monkeypatch.setattr(training, "train", run)
    return calls


def invoke(*arguments: object):
    return runner.invoke(app, ["train", *map(str, arguments)])


def test_a_training_from_a_file(tmp_path, toml) -> None:
    out = tmp_path / "run"
    result = invoke("--config", toml, "--out", out, "--json", "--accelerator", "cpu")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((out / "summary.json").read_text())
    assert "step 4/4, ETA 0:00:00: epoch 2, held out: clean" in result.stderr
    assert set(records(out)[-2]["terms"]) == {"ce", "kl"}
    again = invoke("--out", out, "--resume", "--accelerator", "cpu")
    assert again.exit_code == 0, again.output
    assert "4 steps in" in again.stdout
    assert f"under attack: {out}/model.safetensors" in again.stdout
    refused = invoke("--config", toml, "--out", out, "--accelerator", "cpu")
    assert refused.exit_code == 2
    assert "pass --resume" in refused.stderr


def test_quiet_is_quiet(tmp_path, toml) -> None:
    result = invoke("--config", toml, "--out", tmp_path / "run", "--quiet", "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_options_override_the_file(tmp_path, toml, asked) -> None:
    options = ["--epsilon", 0.3, "--epochs", 7, "--seed", 5, "--data", "mnist", "--threads", 2]
    more = ["--set", "optimiser.lr=0.5", "--set", "method.beta=9", "--devices", 2, "--tensorboard"]
    result = invoke("--config", toml, "--out", tmp_path, *options, *more)
    ((config, out, switches),) = asked
    assert (config.ball.epsilon, config.epochs, config.seed, config.threads) == (0.3, 7, 5, 2)
    assert (config.data.name, config.data.limit) == ("mnist", 220)
    assert config.optimiser.lr == 0.5
    assert config.method == TRADES(steps=2, beta=9.0)
    assert out == tmp_path
    assert switches["tensorboard"]
    assert switches["hardware"].devices == 2
    assert result.stdout == ""  # only the first process reports


def test_another_method_has_its_own_settings(tmp_path, toml, asked) -> None:
    invoke("--config", toml, "--out", tmp_path, "--method", "at")
    invoke("--config", toml, "--out", tmp_path, "--method", "trades")
    invoke("--config", toml, "--out", tmp_path, "--method", "trades:beta=6")
    invoke("--out", tmp_path)
    kept = TRADES(steps=2, beta=2.0)
    assert [config.method for config, *_ in asked[:3]] == [AT(), kept, TRADES(beta=6.0)]
    assert asked[3][0] == TrainingConfig()


def test_warm_starts_from_the_zoo_become_files(tmp_path, asked, monkeypatch) -> None:
    monkeypatch.setattr(zoo, "path", lambda name: Path("/zoo") / f"{name}.safetensors")
    invoke("--out", tmp_path, "--warm-start", "zoo:digits/ce")
    invoke("--out", tmp_path, "--warm-start", "own.safetensors")
    assert [config.warm_start for config, *_ in asked] == [
        InitialWeights("/zoo/digits/ce.safetensors", "zoo:digits/ce"),
        InitialWeights("own.safetensors"),
    ]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_stopped_says_how_to_resume(tmp_path, monkeypatch, kind) -> None:
    def run(*_, **__):
        raise Stopped("stopped after step 3: resume with --resume", kind)

    monkeypatch.setattr(training, "train", run)
    result = invoke("--out", tmp_path)
    assert result.exit_code == 128 + kind
    assert result.stderr == "attribound: stopped after step 3: resume with --resume\n"


def test_a_wrong_setting_is_one_line(tmp_path, toml) -> None:
    result = invoke("--config", toml, "--out", tmp_path / "run", "--set", "epoch=3")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "attribound: epoch: expected only settings of TrainingConfig: method"
    )
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_settings_of_method_and_ball_by_their_paths(tmp_path, asked) -> None:
    options = ["--method", "at", "--set", "method.steps=3", "--set", "ball.epsilon=0.2"]
    assert invoke("--out", tmp_path, *options).exit_code == 0
    invoke("--out", tmp_path, "--ball", "l2:epsilon=0.5,low=0", "--epsilon", 0.7)
    invoke("--out", tmp_path, "--method", "trades+igr:weight=2,base=(trades:steps=3)")
    assert asked[0][0].method == AT(steps=3)
    assert asked[0][0].ball == ab.LinfBall(0.2, low=0, high=1)
    assert asked[1][0].ball == ab.L2Ball(0.7, low=0)
    assert asked[2][0].method == TRADESWithIGR(base=TRADES(steps=3), weight=2.0)


def test_the_report_tells_what_there_is(capsys) -> None:
    summary = {"steps": 3, "seconds": 2.4, "evaluation": None}
    command._report(summary, Path("out"), as_json=False)
    scores = {"clean_accuracy": 0.5, "adversarial_accuracy": None}
    command._report({**summary, "evaluation": scores}, Path("out"), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "3 steps in 2 s: out/model.safetensors",
        "3 steps in 2 s, 50.0 % clean: out/model.safetensors",
    ]


def test_a_config_of_the_cli_is_that_of_python(toml, tmp_path, asked) -> None:
    invoke("--config", toml, "--out", tmp_path)
    config = asked[0][0]
    assert replace(config, method=TRADES(beta=2.0, steps=2)) == config
