from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

import tiny_zoo
from attribound import models, zoo
from attribound.basics.errors import InputError
from attribound.training import CE
from attribound.training.config import HeldOut, InitialWeights, TrainingConfig, TrainingData
from attribound.training.trainer import train
from attribound.zoo import places
from reproduction.zoo.adding import DATA_LICENCES, LICENCE, add

QUICK = tiny_zoo.quick()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A training of a second, by the trainer itself."""
    start = tmp_path_factory.mktemp("start") / "start.safetensors"
    torch.manual_seed(0)
    models.save(models.build(tiny_zoo.CONFIG), tiny_zoo.CONFIG, start)
    config = TrainingConfig(
        method=CE(),
        data=TrainingData("digits", limit=300, held_out=20),
        warm_start=InitialWeights(str(start), label="zoo:digits/ce-mlp"),
        epochs=2,
        seed=3,
        threads=1,
        evaluation=HeldOut(explained=0, attacked=0),
    )
    out = tmp_path_factory.mktemp("runs") / "ce"
    train(config, out, progress=False)
    return out


@pytest.fixture
def run(trained, tmp_path) -> Path:
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("config.json", "summary.json", "model.safetensors"):
        (copy / name).write_bytes((trained / name).read_bytes())
    return copy


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_card_says_what_was_trained(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package" / "models")
    monkeypatch.setenv("ATTRIBOUND_ZOO", str(tmp_path / "zoo"))
    card = add(run, "digits/ce-mlp", tmp_path / "zoo", protocol=QUICK)
    assert zoo.card("digits/ce-mlp") == card
    config, summary = (json.loads((run / f"{n}.json").read_text()) for n in ("config", "summary"))
    weights = (run / "model.safetensors").read_bytes()
    assert zoo.path("digits/ce-mlp").read_bytes() == weights
    assert card.weights == zoo.Weights(
        sha256=hashlib.sha256(weights).hexdigest(), bytes=len(weights)
    )
    assert (card.data, card.method, card.seed, card.epochs) == ("digits", "ce", 3, 2)
    assert card.network == tiny_zoo.CONFIG.to_json()
    assert card.cpu_seconds == summary["cpu_seconds"] > 0
    assert card.warm_start == zoo.WarmStart(
        name="digits/ce-mlp", sha256=config["warm_start_sha256"]
    )
    assert card.commit == config["versions"]["commit"]
    assert card.versions["torch"] == torch.__version__
    assert card.licence == zoo.Licence(weights=LICENCE, data=DATA_LICENCES["digits"])
    assert card.training["settings"]["optimiser"]["lr"] == 1e-3
    assert card.measured.clean.n == 40


def test_the_card_does_not_say_where_files_lay(run, tmp_path) -> None:
    card = add(run, "digits/ce-mlp", tmp_path / "zoo", protocol=QUICK)
    assert card.training["settings"]["warm_start"]["file"] == "start.safetensors"
    assert "/" not in json.dumps(card.training).replace("zoo:digits/ce-mlp", "")


def test_the_card_may_go_elsewhere(run, tmp_path) -> None:
    add(run, "digits/ce-mlp", tmp_path / "a", cards=tmp_path / "b", protocol=QUICK)
    found = {str(f.relative_to(tmp_path)) for d in "ab" for f in (tmp_path / d).rglob("*.*")}
    assert found == {"a/digits/ce-mlp.safetensors", "b/digits/ce-mlp.json"}


def test_a_name_is_taken_once(run, tmp_path) -> None:
    add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)
    with pytest.raises(InputError, match="expected a name that is free"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)
    add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK, replace=True)


def test_the_name_must_say_what_it_is(run, tmp_path) -> None:
    with pytest.raises(InputError, match="expected digits/ce or digits/ce-mlp, for that is what"):
        add(run, "digits/at", tmp_path / "zoo", protocol=QUICK)
    assert not (tmp_path / "zoo").exists()


def test_other_weights_than_the_trainings_are_refused(run, tmp_path) -> None:
    with (run / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=r"as summary\.json says, got [0-9a-f]{64}; the file"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_an_unfinished_training_is_refused(run, tmp_path, name) -> None:
    (run / name).unlink()
    with pytest.raises(InputError, match="expected a file of a finished training"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)


@pytest.mark.parametrize("name", ["data", "versions", "settings", "warm_start_sha256"])
def test_a_training_of_another_version_is_refused(run, tmp_path, name) -> None:
    document = json.loads((run / "config.json").read_text())
    del document[name]
    (run / "config.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"as this version of attribound writes it.*'{name}'"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)


def test_what_the_trainer_wrote_is_checked_like_a_card(run, tmp_path) -> None:
    change(run / "summary.json", cpu_seconds="12")
    with pytest.raises(InputError, match="first in cpu_seconds: Input should be a valid number"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)
    assert not (tmp_path / "zoo").exists()


def test_data_without_a_name_is_refused(run, tmp_path) -> None:
    data = json.loads((run / "config.json").read_text())["data"]
    change(run / "config.json", data={**data, "name": "mine"})
    with pytest.raises(InputError, match=r"data: expected one of digits, .*got 'mine'"):
        add(run, "mine/ce", tmp_path / "zoo", protocol=QUICK)


def test_weights_of_unknown_origin_have_a_checksum_only(run, tmp_path) -> None:
    settings = json.loads((run / "config.json").read_text())["settings"]
    settings["warm_start"]["label"] = None
    change(run / "config.json", settings=settings)
    card = add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)
    assert card.warm_start.name is None


def test_new_weights_have_no_warm_start(run, tmp_path) -> None:
    settings = json.loads((run / "config.json").read_text())["settings"]
    change(run / "config.json", settings={**settings, "warm_start": None}, warm_start_sha256=None)
    assert add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK).warm_start is None


def test_a_file_that_is_no_object_is_refused(run, tmp_path) -> None:
    (run / "config.json").write_text("[]")
    with pytest.raises(InputError, match="as this version of attribound writes it"):
        add(run, "digits/ce", tmp_path / "zoo", protocol=QUICK)
