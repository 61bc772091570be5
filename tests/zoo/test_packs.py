"""Small models in one file: found, read and unpacked like the others."""

from __future__ import annotations

import pytest

import attribound as ab
import tiny_zoo
from attribound import zoo
from attribound.zoo import packs, places
from reproduction.zoo.command import main


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
