"""Configs from tables, and back."""

from __future__ import annotations

import json

import pytest

import attribound as ab
from attribound.basics.errors import InputError
from attribound.training.config import Cadence, HeldOut, TrainingConfig, TrainingData
from attribound.training.objective import TrainingObjective
from attribound.training.objectives import AT, TRADES
from attribound.training.optimiser import SGD, Adam
from attribound.training.schedule import Cosine, MultiStep
from attribound.values import changed, from_spec, names, to_spec


def read(table: object) -> TrainingConfig:
    return from_spec(table, TrainingConfig)


def test_an_empty_document_is_the_default() -> None:
    assert read({}) == TrainingConfig()
    assert to_spec(TrainingConfig()) == {}


def test_a_document_is_read() -> None:
    config = read(
        {
            "epochs": 3,
            "data": {"name": "mnist", "held_out": 10},
            "method": {"kind": "trades", "beta": 3},
            "ball": "l2:epsilon=0.5",
            "optimiser": {"kind": "sgd", "lr": 1},
            "schedule": {"kind": "multistep", "milestones": [1, 2]},
            "warm_start": "ce.safetensors",
        }
    )
    assert (config.epochs, config.method) == (3, TRADES(beta=3.0))
    assert config.data == TrainingData("mnist", held_out=10)
    assert config.ball == ab.L2Ball(0.5)
    assert config.optimiser == SGD(lr=1.0)
    assert config.schedule == MultiStep(milestones=(1, 2))
    assert config.warm_start is not None
    assert config.warm_start.file == "ce.safetensors"


@pytest.mark.parametrize("name", names(TrainingObjective))
def test_every_method_survives_json(name) -> None:
    config = read({"method": name, "checkpoint": {"seconds": None}})
    assert config.method.name == name
    stored = json.loads(json.dumps(to_spec(config, whole=True)))
    assert read(stored) == config
    assert stored["method"]["kind"] == name
    assert stored["checkpoint"] == {"steps": None, "seconds": None}


def test_nested_settings_of_a_method_are_read() -> None:
    config = read({"method": {"kind": "trades+igr", "base": {"beta": 2}, "ig": {"steps": 3}}})
    assert config.method.base == TRADES(beta=2.0)
    assert config.method.ig == ab.IntegratedGradients(steps=3)
    assert read({"method": "trades+igr:base=(trades:beta=2),ig=(ig:steps=3)"}) == config


def test_a_table_without_a_kind_changes_the_default() -> None:
    assert read({"optimiser": {"lr": 0.5}}).optimiser == Adam(lr=0.5)
    assert read({"ball": {"epsilon": 0.2}}).ball == ab.LinfBall(0.2, low=0, high=1)
    assert read({"ball": {"kind": "linf", "epsilon": 0.2}}).ball == ab.LinfBall(0.2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"epoch": 3}, "^epoch: expected only settings of TrainingConfig: method, .*got 'epoch'"),
        (
            {"optimiser": {"kind": "sgd", "beta1": 0.1}},
            r"optimiser\.beta1: expected only settings of sgd: lr, weight_decay, momentum, nest",
        ),
        (
            {"method": {"kind": "at", "beta": 1}},
            r"method\.beta: expected only settings of at: steps, step_size, got 'beta'",
        ),
        ({"method": {"name": "at"}}, r"method\.name: expected only settings of ce: none"),
        ({"method": "fgsm"}, r"^method: expected one of .*at, .*ce, .*got 'fgsm'"),
        ({"method": "ig:steps=3"}, r"^method: expected one of .*at, .*ce, .*got 'ig'"),
        ({"epochs": "3"}, "epochs: expected a valid integer, got '3'"),
        ({"epochs": True}, "epochs: expected a valid integer, got True"),
        ({"epochs": 0}, "epochs: expected a whole number, 1 or more, got 0"),
        ({"data": {"limit": 0}}, r"data\.limit: expected a whole number, 1 or more, got 0"),
        ({"ball": {"kind": "l7"}}, r"^ball: expected one of l2, linf, lp"),
        ({"ball": {"epsilon": -1}}, r"ball\.epsilon: expected a finite radius above 0"),
        ({"ball": {"low": "x"}}, r"ball\.low: expected a valid number or an instance of Tensor"),
        ({"data": 3}, "^data: expected a table of settings: name, part, .*, got 3"),
        ({"warm_start": {"label": "x"}}, r"warm_start\.file: expected a value, got nothing"),
        (
            {"method": {"kind": "trades+igr", "base": {"beta": -1.0}}},
            r"method\.base\.beta: expected a finite number above 0, got -1",
        ),
        (
            {"method": {"kind": "advaat", "ig": {"steps": 0}}},
            r"method\.ig\.steps: expected a whole number of at least 1, got 0",
        ),
        (
            {"method": {"kind": "advaat", "ig": {"quadrature": "simpson"}}},
            r"method\.ig\.quadrature: expected one of riemann_right",
        ),
        (
            {"epsilon_warm_up": {"epochs": 1, "fraction": 0.1}},
            "^epsilon_warm_up: expected epochs or fraction, got both",
        ),
        (
            {"epochs": "3", "batch": "x"},
            r"settings of TrainingConfig: .*epochs: .*'3'.* \| batch: .*'x'.*; mend all of these",
        ),
        ([], "TrainingConfig: expected a table of settings"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(table, message) -> None:
    with pytest.raises(InputError, match=message):
        read(table)


def test_settings_are_changed_by_path() -> None:
    table = {"method": "at", "optimiser": {"kind": "sgd"}}
    settings = ["method.steps=3", "optimiser.lr=0.5", "data.name=some/where", "network.hidden=[4]"]
    result = changed(table, [*settings, "ball.epsilon=0.2", "schedule=cosine"])
    assert table == {"method": "at", "optimiser": {"kind": "sgd"}}
    config = read(result)
    assert config.method == AT(steps=3)
    assert config.optimiser == SGD(lr=0.5)
    assert config.data == TrainingData("some/where")
    assert config.network == {"hidden": [4]}
    assert config.ball == ab.LinfBall(0.2, low=0, high=1)
    assert config.schedule == Cosine()


def test_a_change_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match="--set epochs: expected PATH=VALUE"):
        changed({}, ["epochs"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainingData(limit=0), "limit"),
        (lambda: TrainingData(held_out=-1), "held_out"),
        (lambda: HeldOut(every=0), "every"),
        (lambda: HeldOut(attacked=-1), "attacked"),
        (lambda: HeldOut(k=0), "k"),
        (lambda: Cadence(steps=0), "steps"),
        (lambda: Cadence(seconds=0.0), "seconds"),
        (lambda: TrainingConfig(threads=0), "threads"),
        (lambda: TrainingConfig(clip_gradient=0.0), "clip_gradient"),
    ],
)
def test_values_are_checked_without_toml_too(make, message) -> None:
    with pytest.raises(InputError, match=f"^{message}: expected a"):
        make()


def test_a_cadence_is_due_by_steps_or_seconds() -> None:
    assert Cadence(steps=5, seconds=None).due(5, 0.0)
    assert not Cadence(steps=5, seconds=None).due(4, 1e9)
    assert Cadence(seconds=2.0).due(1, 2.0)
    assert not Cadence(steps=5, seconds=2.0).due(4, 1.9)
