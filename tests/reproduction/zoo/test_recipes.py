"""The recipes, and the script that trains them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import shared
from attribound import InputError, LinfBall, zoo
from attribound.basics import read_toml
from attribound.cli.app import app
from attribound.models import config_from_json
from attribound.training import TrainingConfig
from attribound.training.parts import in_units, load_parts
from attribound.values import from_spec
from attribound.zoo import places
from reproduction.zoo import command
from reproduction.zoo import train as script
from reproduction.zoo.protocols import PROTOCOLS, TABLES

RECIPES = script.read_recipes(script.HERE / "recipes")
SMALL_CNN = ("ce", "at", "ig-norm", "advaat", "art", "trades", "trades-igr")
WANTED = {
    *(f"{data}/{method}" for data in ("mnist", "fashion-mnist") for method in SMALL_CNN),
    *(f"fashion-mnist/{name}-mlp" for name in ("ce", "at")),
    *(f"cifar10/{name}-resnet18" for name in SMALL_CNN),
    *(f"flowers17/{n}-resnet18" for n in ("ce", "at", "advaat", "trades", "trades-igr")),
}


def config_of(recipe) -> TrainingConfig:
    return from_spec(read_toml(recipe.file), TrainingConfig)


def test_there_is_a_recipe_for_every_model_of_the_issue() -> None:
    assert set(RECIPES) >= WANTED


def test_every_recipe_has_its_model() -> None:
    assert {*RECIPES} <= {*zoo.names()}


@pytest.mark.parametrize("name", RECIPES)
def test_the_shipped_model_was_made_by_its_recipe(name) -> None:
    made = from_spec(zoo.card(name).training["settings"], TrainingConfig)
    recipe = config_of(RECIPES[name])
    if name.startswith("credit-"):  # what the table says is written out
        root = str(shared.shared("credit").parent)
        recipe = in_units(recipe, load_parts(replace(recipe.data, root=root)).train)
    assert replace(made, warm_start=None) == replace(recipe, warm_start=None)
    start, needs = made.warm_start, recipe.warm_start
    assert (start and start.label) == (needs and needs.file)


def architecture(recipe) -> str:
    """That of the first model in its line of warm starts."""
    if recipe.needs:
        return architecture(RECIPES[recipe.needs])
    config = config_of(recipe)
    default = {"cifar10": "resnet18"}.get(config.data.name, "small_cnn")
    return config_from_json({"architecture": default, **config.network}).architecture


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_what_its_name_says(name) -> None:
    config = config_of(RECIPES[name])
    zoo.check_describes(name, config.data.name, config.method.name, architecture(RECIPES[name]))
    assert config.threads is not None  # the weights depend on it
    if config.data.name in TABLES:  # in deviations of the rows it is trained on
        assert config.ball == LinfBall(0.1)
        return
    measured = PROTOCOLS[config.data.name].predictions.ball
    assert config.ball == measured  # trained against what it is measured with


def recipes(**needs: str | None):
    return {name: script.ZooRecipe(name, Path(name), start) for name, start in needs.items()}


def test_what_is_done_is_not_trained_again() -> None:
    known = recipes(ce=None, at="ce", art="at", mlp=None)
    assert script.chosen(known, [], done=["ce"]) == {"at", "art", "mlp"}
    assert script.chosen(known, ["art"], done=[]) == {"ce", "at", "art"}
    assert script.chosen(known, ["art"], done=["at"]) == {"art"}
    assert script.chosen(known, ["ce"], done=["ce"]) == set()


@pytest.mark.parametrize(
    ("known", "names", "message"),
    [
        (recipes(ce=None), ["x"], "no recipe of the name x"),
        (recipes(at="ce"), [], "ce is neither in the zoo nor a recipe"),
    ],
)
def test_refuses_what_it_does_not_know(known, names, message) -> None:
    with pytest.raises(SystemExit, match=message):
        script.chosen(known, names, done=[])


def test_a_name_of_another_form_is_refused(tmp_path) -> None:
    (tmp_path / "digits.toml").write_text('["C E"]\n')
    with pytest.raises(InputError, match="expected <data>/<method>"):
        script.read_recipes(tmp_path)


def test_each_after_what_it_starts_from_and_not_more_than_asked_for() -> None:
    known = recipes(ce=None, at="ce", art="at", advaat="at", mlp=None, mlp_at="mlp")
    finished, running, most = [], [], 0
    lock = threading.Lock()

    def train(recipe) -> bool:
        nonlocal most
        with lock:
            running.append(recipe.name)
            most = max(most, len(running))
            assert recipe.needs is None or recipe.needs in finished
        time.sleep(0.02)
        with lock:
            running.remove(recipe.name)
            finished.append(recipe.name)
        return True

    state = script.train_all(known, set(known), 2, train)
    assert state == dict.fromkeys(known, "done")
    assert most == 2


def test_a_failure_stops_only_what_starts_from_it() -> None:
    known = recipes(ce=None, at="ce", art="at", mlp=None)
    state = script.train_all(known, set(known), 2, lambda recipe: recipe.name != "ce")
    assert state == {"ce": "failed", "at": "blocked", "art": "blocked", "mlp": "done"}


def test_ctrl_c_begins_nothing_more(monkeypatch) -> None:
    known = recipes(**dict.fromkeys("abcdef"))
    begun = []

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    def train(recipe) -> bool:
        begun.append(recipe.name)
        time.sleep(0.1)
        return True

    monkeypatch.setattr(script, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        script.train_all(known, set(known), 1, train)
    assert len(begun) == 1


RECIPE = """
[{method}]
epochs = 1
threads = 1
{start}
[{method}.data]
name = "digits"
limit = {limit}
held_out = 20
[{method}.method]
kind = "{method}"
[{method}.evaluation]
attacked = 0
explained = 0
"""


@pytest.fixture
def options(tmp_path, monkeypatch) -> list[str]:
    """Two recipes, one that starts from the other, for a zoo of their own."""
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package")
    monkeypatch.setenv("ATTRIBOUND_ZOO", "")  # the script sets it; put back afterwards
    (tmp_path / "recipes").mkdir()
    start = 'warm_start = "zoo:digits/ce"'
    first = RECIPE.format(start="", method="ce", limit=300)
    second = RECIPE.format(start=start, method="at", limit=301)
    (tmp_path / "recipes" / "digits.toml").write_text(first + second)
    places_of = {"--recipes": "recipes", "--runs": "runs", "--to": "zoo"}
    found = [word for key, name in places_of.items() for word in (key, str(tmp_path / name))]
    return [*found, "--images", "10"]


@pytest.fixture
def in_process(monkeypatch) -> None:
    """Commands without a process of their own: importing takes longer than such a training."""

    apps = {"attribound.cli": app, "reproduction.zoo": command.app}

    def run(arguments, stdout, env, **_):
        assert arguments[1] == "-m"
        assert env["PYTHONPATH"].startswith(str(script.ROOT))
        found = CliRunner().invoke(apps[arguments[2]], arguments[3:])
        stdout.write(found.output.encode())
        return SimpleNamespace(returncode=found.exit_code)

    # In the script alone: git is asked for the commit in a process.
    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=run))


def check(options: list[str], capsys) -> None:
    assert zoo.names() == ("digits/at", "digits/ce")
    first = zoo.card("digits/ce").weights.sha256
    assert zoo.card("digits/at").warm_start == zoo.WarmStart(name="digits/ce", sha256=first)
    assert zoo.load("digits/at")(torch.rand(1, 1, 8, 8)).shape == (1, 10)
    capsys.readouterr()
    assert script.main([*options, "--list"]) == 0
    assert capsys.readouterr().out == "nothing to train: every model is there\n"


def test_trains_and_measures_what_is_not_there(options, in_process, capsys) -> None:
    assert script.main(options) == 0, capsys.readouterr().out
    check(options, capsys)


@pytest.mark.slow
def test_in_processes(options, capsys) -> None:
    assert script.main([*options, "--jobs", "2"]) == 0, capsys.readouterr().out
    check(options, capsys)


def test_a_failed_training_is_said(options, in_process, tmp_path, capsys) -> None:
    path = tmp_path / "recipes/digits.toml"
    path.write_text(path.read_text().replace("limit = 300\n", "limit = 3000\n"))
    assert script.main(options) == 1
    said = capsys.readouterr().out
    assert "digits/ce: exit code 2, see" in said
    assert "blocked  digits/at\nfailed   digits/ce\n" in said
    assert "limit=3000" in (tmp_path / "runs/digits/ce.log").read_text()


def test_ctrl_c_says_how_to_go_on(options, monkeypatch, capsys) -> None:
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "train_all", interrupt)
    assert script.main(options) == 130
    assert "the same command goes on" in capsys.readouterr().out
