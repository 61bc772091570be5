from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch

import attribound as ab
import tiny_zoo
from attribound import zoo
from attribound.basics.errors import InputError
from attribound.models import build
from attribound.zoo import packs, places
from reproduction.zoo.command import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    tiny_zoo.make(root)
    tiny_zoo.make(root, "digits/at-mlp", seed=1, weights=False)
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    """A zoo with one whole model and one known by its card only."""
    shutil.copytree(made, tmp_path / "zoo")
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package" / "models")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTRIBOUND_ZOO", str(tmp_path / "zoo"))
    return tmp_path / "zoo"


def test_names_and_cards(root) -> None:
    assert zoo.names() == ("digits/at-mlp", "digits/ce-mlp")
    assert [card.seed for card in zoo.cards()] == [1, 0]
    assert zoo.card("digits/ce-mlp").network == tiny_zoo.CONFIG.to_json()


def test_a_model_comes_ready_to_bound(root) -> None:
    model = zoo.load("digits/ce-mlp")
    torch.manual_seed(0)
    expected = build(tiny_zoo.CONFIG).eval()
    x = torch.rand(2, 1, 8, 8)
    assert not model.training
    torch.testing.assert_close(model(x), expected(x))
    assert (ab.bound(ab.Saliency(model), x, ab.L2Ball(0.01)).euclidean > 0).all()


def test_a_changed_byte_is_refused(root) -> None:
    file = root / "digits/ce-mlp.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"expected a file with sha256 .* the file is damaged"):
        zoo.load("digits/ce-mlp")


def test_weights_that_are_elsewhere_are_named(root) -> None:
    wanted = zoo.card("digits/at-mlp").weights
    with pytest.raises(InputError, match="weights of digits/at-mlp: expected") as error:
        zoo.load("digits/at-mlp")
    for words in (wanted.sha256, f"{wanted.bytes:,} bytes", f"{root}/digits/at-mlp.safetensors"):
        assert words in str(error.value)


def test_without_a_directory_of_their_own_the_cache_is_named(root, monkeypatch, tmp_path) -> None:
    shutil.copytree(root, places.PACKAGED)
    monkeypatch.delenv("ATTRIBOUND_ZOO")
    with pytest.raises(InputError, match=f"put it at {tmp_path}/cache/attribound/zoo/digits"):
        zoo.path("digits/at-mlp")


def test_weights_may_lie_elsewhere_than_their_card(root, tmp_path) -> None:
    there = tmp_path / "cache/attribound/zoo/digits"
    there.mkdir(parents=True)
    (root / "digits/ce-mlp.safetensors").rename(there / "ce-mlp.safetensors")
    assert zoo.path("digits/ce-mlp") == there / "ce-mlp.safetensors"


def test_an_unknown_name_gives_the_nearest(root) -> None:
    with pytest.raises(InputError, match=r"such as digits/ce-mlp.*got 'digits/ce'"):
        zoo.card("digits/ce")


def test_a_name_cannot_lead_out_of_the_zoo(root) -> None:
    with pytest.raises(InputError, match="expected <data>/<method>"):
        zoo.load("../zoo/digits/ce-mlp")


def test_a_card_under_another_name_is_refused(root) -> None:
    (root / "digits/ce-mlp.json").rename(root / "digits/trades-mlp.json")
    with pytest.raises(InputError, match="expected the card of digits/trades-mlp, got that of"):
        zoo.card("digits/trades-mlp")


def test_a_card_of_another_network_is_refused(root) -> None:
    """With the right checksum: the card itself is wrong."""
    path = root / "digits/ce-mlp.json"
    path.write_text(path.read_text().replace('"softplus": 20.0', '"softplus": 5.0'))
    with pytest.raises(InputError, match="leave the config out"):
        zoo.load("digits/ce-mlp")


def test_no_directory_puts_another_model_under_a_shipped_name(root) -> None:
    tiny_zoo.make(places.PACKAGED, seed=7, weights=False)
    assert zoo.card("digits/ce-mlp").seed == 7
    with pytest.raises(InputError, match="of another model: replace it"):
        zoo.load("digits/ce-mlp")


def test_places_in_order(root, monkeypatch, tmp_path) -> None:
    package = tmp_path / "checkout/src/attribound/zoo/models"
    monkeypatch.setattr(places, "PACKAGED", package)
    expected = [package, root, tmp_path / "cache/attribound/zoo"]
    assert list(places.places()) == expected
    package.mkdir(parents=True)
    (tmp_path / "checkout/pyproject.toml").touch()
    assert list(places.places()) == [*expected, tmp_path / "checkout/zoo/models"]


def test_the_second_distribution_is_found(root, monkeypatch, tmp_path) -> None:
    """It is a folder of files on the path, without code."""
    models = tmp_path / "site" / "attribound_zoo" / "models"
    tiny_zoo.make(models, "digits/at-mlp", seed=1)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert places.places()[1] == models
    assert not zoo.load("digits/at-mlp").training


def test_the_second_distribution_has_the_weights_that_the_first_has_not() -> None:
    """And the version of the first, so that cards and weights belong together."""
    checkout = Path(__file__).resolve().parents[2]
    settings = tomllib.loads((checkout / "zoo" / "pyproject.toml").read_text())
    assert settings["project"]["version"] == ab.__version__
    here = {f"{path.parent.name}/{path.stem}" for path in checkout.glob("zoo/models/*/*")}
    own = {f"{path.parent.name}/{path.stem}" for path in places.PACKAGED.glob("*/*.safetensors")}
    known = {f"{path.parent.name}/{path.stem}" for path in places.PACKAGED.glob("*/*.json")}
    assert here | own == known
    assert not here & own


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A zoo of one packed model, and nothing else."""
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package")
    monkeypatch.setattr(packs, "_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(places, "cache_directory", lambda: tmp_path / "none")
    monkeypatch.delenv("ATTRIBOUND_ZOO", raising=False)
    card = tiny_zoo.make(tmp_path / "loose")
    (tmp_path / "package").mkdir()
    zoo.pack(tmp_path / "loose", [card.name], tmp_path / "package" / "small.zip")
    return card


def test_a_packed_model_is_like_any_other(packed, tmp_path) -> None:
    assert zoo.names() == (packed.name,)
    assert zoo.card(packed.name) == packed
    file = zoo.path(packed.name)
    assert zoo.is_unpacked(file)
    assert file.is_relative_to(tmp_path / "cache")
    assert file.read_bytes() == (tmp_path / "loose" / f"{packed.name}.safetensors").read_bytes()
    assert isinstance(zoo.load(packed.name), ab.models.mlp.MLP)


def test_a_damaged_copy_is_unpacked_again(packed) -> None:
    zoo.path(packed.name).write_bytes(b"wrong")
    zoo.load(packed.name)


def test_the_same_models_make_the_same_archive(packed, tmp_path) -> None:
    zoo.pack(tmp_path / "loose", [packed.name], tmp_path / "again.zip")
    first = (tmp_path / "package" / "small.zip").read_bytes()
    assert (tmp_path / "again.zip").read_bytes() == first


def test_without_a_cache_it_is_a_temporary_file(packed, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(packs, "_cache", lambda: tmp_path / "file")
    assert zoo.path(packed.name).is_relative_to(packs._temporary())
    monkeypatch.setattr(packs, "_temporary", lambda: tmp_path / "file")
    with pytest.raises(OSError, match="neither the cache nor the temporary directory"):
        zoo.path(packed.name)


def test_the_command_packs_and_refuses_to_write_into_packs(
    packed, tmp_path, monkeypatch, capsys
) -> None:
    made = tmp_path / "made.zip"
    monkeypatch.setattr("sys.argv", ["zoo", "pack", str(tmp_path / "loose"), str(made)])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert made.read_bytes() == (tmp_path / "package" / "small.zip").read_bytes()
    monkeypatch.setattr("sys.argv", ["zoo", "measure", packed.name, "--write"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "which is packed with others" in capsys.readouterr().err
