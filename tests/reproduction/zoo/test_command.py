"""``python -m reproduction.zoo``, as a user types it."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

import tiny_zoo
from attribound import InputError, models, zoo
from attribound.training import CE, TrainingConfig, TrainingData, train
from attribound.training.config import HeldOut
from attribound.zoo import places
from reproduction.zoo import command
from reproduction.zoo.protocols import protocol_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    for seed, name in enumerate(["digits/ce-mlp", "digits/at-mlp"]):
        tiny_zoo.make(root, name, seed=seed)
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "zoo")
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package" / "models")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTRIBOUND_ZOO", str(tmp_path / "zoo"))
    return tmp_path / "zoo"


def call(*arguments: object):
    return CliRunner().invoke(command.app, [str(argument) for argument in arguments])


def test_measuring_again_agrees(root) -> None:
    found = call("measure", "digits/ce-mlp", "digits/at-mlp")
    assert found.exit_code == 0
    assert found.stdout.count("agrees") == 12
    assert "DIFFERS" not in found.stdout


def test_fewer_images_agree_within_their_error(root) -> None:
    found = call("measure", "digits/ce-mlp", "--images", 20)
    assert found.exit_code == 0
    assert "agrees" in found.stdout


def lie(root, name: str = "digits/ce-mlp") -> None:
    path = root / f"{name}.json"
    card = json.loads(path.read_text())
    card["measured"]["clean"]["count"] = 39
    path.write_text(json.dumps(card))


def test_a_card_that_says_too_much_is_found_out(root) -> None:
    lie(root)
    found = call("measure", "digits/ce-mlp", "digits/at-mlp")
    assert found.exit_code == 1
    assert found.stdout.count("DIFFERS") == 1


def test_write_corrects_the_card(root, made) -> None:
    true = zoo.card("digits/ce-mlp")
    lie(root)
    assert call("measure", "digits/ce-mlp", "--write").exit_code == 0
    corrected = zoo.card("digits/ce-mlp")
    assert corrected.measured == true.measured
    assert corrected.date > true.date
    assert call("measure", "digits/ce-mlp").exit_code == 0


def test_a_card_is_written_with_all_its_images(root) -> None:
    found = call("measure", "digits/ce-mlp", "--write", "--images", 20)
    assert "expected the images that the card names, got --images 20" in str(found.exception)


def test_add_makes_a_model(root, tmp_path) -> None:
    config = TrainingConfig(
        method=CE(),
        network={"architecture": "mlp", "hidden": [8]},
        data=TrainingData("digits", limit=300, held_out=20),
        threads=1,
        evaluation=HeldOut(explained=0, attacked=0),
    )
    train(config, tmp_path / "run", progress=False)
    found = call("add", tmp_path / "run", "--name", "digits/ce", "--images", 10)
    assert found.exit_code == 0, found.stderr
    assert found.stdout.splitlines()[-1] == f"{root}/digits/ce.safetensors"
    assert isinstance(zoo.load("digits/ce"), models.MLP)
    assert zoo.card("digits/ce").measured.clean.n == 10
    own = zoo.card("digits/ce").measured.protocol
    assert own == protocol_of("digits").limited(10)
    again = call("add", tmp_path / "run", "--name", "digits/ce", "--images", 10)
    assert "pass --replace" in str(again.exception)
    replaced = ("add", tmp_path / "run", "--name", "digits/ce", "--images", 10, "--replace")
    assert call(*replaced).exit_code == 0


def test_add_attacks_all_images_if_asked_to(root, tmp_path, monkeypatch) -> None:
    asked = []

    def refuse(run, name, place, *, protocol, **options):
        asked.append(protocol)
        raise InputError("run", expected="none", got="this", remedy="stop")

    monkeypatch.setattr(command, "add_model", refuse)
    for words in ((), ("--whole",), ("--whole", "--images", 5), ("--images", 5)):
        assert isinstance(call("add", tmp_path, "--name", "mnist/ce", *words).exception, InputError)
    usual = protocol_of("mnist")
    assert asked == [None, usual.whole(), usual.whole().limited(5), usual.limited(5)]


def test_what_is_unusable_is_said_in_one_line(root, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["zoo", "measure", "digits/nobody"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err.startswith("reproduction: name of a model: expected a model of")
