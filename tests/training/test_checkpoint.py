"""Checkpoints are whole, complete and checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from attribound.basics.errors import InputError
from attribound.models import MLPConfig, build
from attribound.training import checkpoint
from attribound.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint

CONFIG = MLPConfig(features=3, hidden=(2,), classes=2)


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return build(CONFIG)


def test_weights_and_state_come_back(tmp_path) -> None:
    model, other = network(0), network(1)
    state = {"meter": {"loss": 0.1}, "optimiser": {"state": {0: torch.arange(3)}}, "log_bytes": 7}
    saved = save_checkpoint(tmp_path / "c", 12, model, CONFIG, state)
    assert latest_checkpoint(tmp_path / "c") == saved
    step, found = load_checkpoint(saved, other)
    assert step == 12
    assert found["meter"] == state["meter"]
    assert torch.equal(found["optimiser"]["state"][0], torch.arange(3))
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_one_before_goes_when_the_new_one_is_complete(tmp_path) -> None:
    for step in (5, 10, 10, 100):
        save_checkpoint(tmp_path, step, network(0), CONFIG, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-000000100"]


def test_the_one_before_stays_while_the_new_one_is_not(tmp_path, monkeypatch) -> None:
    old = save_checkpoint(tmp_path, 5, network(0), CONFIG, {"a": 1})

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "write_json", full)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(tmp_path, 6, network(1), CONFIG, {"a": 2})
    assert latest_checkpoint(tmp_path) == old
    assert load_checkpoint(old, network(2)) == (5, {"a": 1})
    monkeypatch.undo()
    save_checkpoint(tmp_path, 6, network(1), CONFIG, {"a": 2})  # over what was left behind
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-000000006"]


@pytest.mark.parametrize("name", ["model.safetensors", "state.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["a bit", "the end", "everything"])
def test_a_damaged_file_is_named(tmp_path, name, damage) -> None:
    saved = save_checkpoint(tmp_path, 5, network(0), CONFIG, {"a": torch.rand(40)})
    file = saved / name
    content = bytearray(file.read_bytes())
    if damage == "everything":
        file.unlink()
    elif damage == "the end":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    # A changed digit in the manifest is a checksum that no file has: then the file is named.
    with pytest.raises(InputError, match=r"step-000000005/.*expected .*damaged"):
        load_checkpoint(saved, network(1))


def test_no_folder_has_no_checkpoint(tmp_path) -> None:
    assert latest_checkpoint(tmp_path / "none") is None
    (tmp_path / ".step-000000004").mkdir()
    assert latest_checkpoint(tmp_path) is None


def test_no_code_of_a_checkpoint_is_run(tmp_path) -> None:
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    saved = save_checkpoint(tmp_path / "c", 5, network(0), CONFIG, {"a": Evil()})
    with pytest.raises(Exception, match="Weights only load failed"):
        load_checkpoint(saved, network(1))
    assert not (tmp_path / "ran").exists()
    shutil.rmtree(saved)
