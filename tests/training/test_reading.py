"""Configs from tables, and back."""

from __future__ import annotations

import json

import pytest

from attribound.basics.errors import InputError
from attribound.training import OBJECTIVES
from attribound.training.config import Ball, Cadence, Data, Evaluation, TrainingConfig
from attribound.training.objectives import AT, TRADES
from attribound.training.optimiser import SGD, Adam
from attribound.training.reading import changed, read_config, to_json
from attribound.training.schedule import MultiStep


def test_an_empty_document_is_the_default() -> None:
    assert read_config({}) == TrainingConfig()


def test_a_document_is_read() -> None:
    config = read_config(
        {
            "epochs": 3,
            "data": {"name": "mnist", "held_out": 10},
            "method": {"name": "trades", "beta": 3},
            "optimiser": {"name": "sgd", "lr": 1},
            "schedule": {"name": "multistep", "milestones": [1, 2]},
            "warm_start": "ce.safetensors",
        }
    )
    assert (config.epochs, config.method) == (3, TRADES(beta=3.0))
    assert config.data == Data("mnist", held_out=10)
    assert config.optimiser == SGD(lr=1.0)
    assert config.schedule == MultiStep(milestones=(1, 2))
    assert config.warm_start is not None
    assert config.warm_start.file == "ce.safetensors"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_method_survives_json(name) -> None:
    config = read_config({"method": name, "checkpoint": {"seconds": None}})
    assert config.method.name == name
    stored = json.loads(json.dumps(to_json(config)))
    assert read_config(stored) == config
    assert stored["method"]["name"] == name
    assert stored["checkpoint"] == {"steps": None, "seconds": None}


def test_nested_settings_of_a_method_are_read() -> None:
    config = read_config({"method": {"name": "trades+igr", "base": {"beta": 2}}})
    assert config.method.base == TRADES(beta=2.0)


def test_a_table_without_a_name_is_of_the_default_kind() -> None:
    assert read_config({"optimiser": {"lr": 0.5}}).optimiser == Adam(lr=0.5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"epoch": 3}, "epoch: expected only data, network, .*method, got 'epoch'"),
        ({"optimiser": {"name": "sgd", "beta1": 0.1}}, r"optimiser\.beta1: expected only name, lr"),
        ({"method": {"name": "at", "beta": 1}}, r"method\.beta: expected only name, steps"),
        ({"method": "fgsm"}, r"method\.name: expected one of ce, at, .*got 'fgsm'"),
        ({"epochs": "3"}, "epochs: expected Input should be a valid integer, got '3'"),
        ({"epochs": True}, "epochs: expected Input should be a valid integer, got True"),
        ({"epochs": 0}, "epochs: expected a whole number, 1 or more, got 0"),
        ({"ball": {"norm": "l7"}}, r"ball\.norm: expected .*'linf' or 'l2'"),
        ({"ball": {"epsilon": -1}}, "epsilon: expected a finite radius above 0"),
        ({"data": 3}, "data: expected a table, got 3"),
        ({"warm_start": {"label": "x"}}, r"warm_start\.file: expected a value, got nothing"),
        ([], "config: expected a table"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(table, message) -> None:
    with pytest.raises(InputError, match=message):
        read_config(table)


def test_settings_are_changed_by_path() -> None:
    table = {"method": "at", "optimiser": {"name": "sgd"}}
    result = changed(
        table, ["method.steps=3", "optimiser.lr=0.5", "data.name=some/where", "network.hidden=[4]"]
    )
    assert result["method"] == {"name": "at", "steps": 3}
    assert result["optimiser"] == {"name": "sgd", "lr": 0.5}
    assert result["data"] == {"name": "some/where"}
    assert result["network"] == {"hidden": [4]}
    assert table == {"method": "at", "optimiser": {"name": "sgd"}}
    assert read_config(result).method == AT(steps=3)


def test_a_change_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match="--set epochs: expected PATH=VALUE"):
        changed({}, ["epochs"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Data(limit=0), r"data\.limit"),
        (lambda: Data(held_out=-1), r"data\.held_out"),
        (lambda: Ball(norm="l1"), r"ball\.norm: expected 'linf' or 'l2'"),
        (lambda: Evaluation(every=0), r"evaluation\.every"),
        (lambda: Evaluation(attacked=-1), r"evaluation\.attacked"),
        (lambda: Evaluation(k=0), r"evaluation\.k"),
        (lambda: Cadence(steps=0), r"checkpoint\.steps"),
        (lambda: Cadence(seconds=0.0), r"checkpoint\.seconds"),
        (lambda: TrainingConfig(threads=0), "threads"),
        (lambda: TrainingConfig(clip_gradient=0.0), "clip_gradient"),
    ],
)
def test_values_are_checked_without_toml_too(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_cadence_is_due_by_steps_or_seconds() -> None:
    assert Cadence(steps=5, seconds=None).due(5, 0.0)
    assert not Cadence(steps=5, seconds=None).due(4, 1e9)
    assert Cadence(seconds=2.0).due(1, 2.0)
    assert not Cadence(steps=5, seconds=2.0).due(4, 1.9)


def test_a_ball_without_a_range() -> None:
    assert Ball(range=False).build().low is None
    assert Ball(norm="l2", epsilon=0.5).build().p == 2
