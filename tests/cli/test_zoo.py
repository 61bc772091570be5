from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
from typer.testing import CliRunner

import tiny_zoo
from attribound import models, zoo
from attribound.basics.errors import InputError
from attribound.cli import zoo as commands
from attribound.cli.app import app
from attribound.training import CE
from attribound.training.config import HeldOut, TrainingConfig, TrainingData
from attribound.training.trainer import train
from attribound.zoo import places
from attribound.zoo.storage import to_json


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
    return CliRunner().invoke(app, ["zoo", *map(str, arguments)])


def test_the_leaderboard(root) -> None:
    found = call()
    assert found.exit_code == 0
    kendall = {card.name: card.measured.similarity.kendall.value for card in zoo.cards()}
    best, second = sorted(kendall, key=kendall.get, reverse=True)
    assert found.stdout.index(best) < found.stdout.index(second)
    assert f"{kendall[best]:.3f}" in found.stdout
    assert "Clean: 40 test images." in found.stdout


def test_the_leaderboard_needs_no_weights(root) -> None:
    for file in root.rglob("*.safetensors"):
        file.unlink()
    assert "digits/ce-mlp" in call().stdout


def test_an_empty_zoo_says_so(root) -> None:
    shutil.rmtree(root)
    found = call()
    assert (found.exit_code, found.stdout) == (0, "no models\n")


def test_as_json_csv_and_markdown(root) -> None:
    rows = json.loads(call("--json", "--sort", "clean").stdout)
    assert [row["clean"] for row in rows] == sorted((row["clean"] for row in rows), reverse=True)
    lines = list(csv.DictReader(io.StringIO(call("--csv", "--sort", "clean").stdout)))
    assert [line["name"] for line in lines] == [row["name"] for row in rows]
    assert call("--markdown").stdout == zoo.markdown(zoo.cards()) + "\n"


def test_one_format_at_a_time(root) -> None:
    found = call("--json", "--csv")
    assert found.exit_code == 2
    assert "expected one of --json, --csv and --markdown" in found.stderr


def test_an_unknown_sort_is_refused(root) -> None:
    found = call("--sort", "colour")
    assert found.exit_code == 2
    assert "sort: expected one of kendall" in found.stderr


def test_show_prints_the_card(root) -> None:
    assert call("show", "digits/ce-mlp").stdout == to_json(zoo.card("digits/ce-mlp"))


def test_show_of_an_unknown_name(root) -> None:
    found = call("show", "digits/cee-mlp")
    assert found.exit_code == 2
    assert "such as digits/ce-mlp" in found.stderr


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
    assert found.exit_code == 2
    assert "expected the images that the card names, got --images 20" in found.stderr


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
    assert own == zoo.protocol_of("digits").limited(10)
    again = call("add", tmp_path / "run", "--name", "digits/ce", "--images", 10)
    assert again.exit_code == 2
    assert "pass --replace" in again.stderr
    replaced = ("add", tmp_path / "run", "--name", "digits/ce", "--images", 10, "--replace")
    assert call(*replaced).exit_code == 0


def test_add_attacks_all_images_if_asked_to(root, tmp_path, monkeypatch) -> None:
    asked = []

    def refuse(run, name, place, *, protocol, **options):
        asked.append(protocol)
        raise InputError("run", expected="none", got="this", remedy="stop")

    monkeypatch.setattr(commands, "add_model", refuse)
    for words in ((), ("--whole",), ("--whole", "--images", 5), ("--images", 5)):
        assert call("add", tmp_path, "--name", "mnist/ce", *words).exit_code == 2
    usual = zoo.protocol_of("mnist")
    assert asked == [None, usual.whole(), usual.whole().limited(5), usual.limited(5)]
