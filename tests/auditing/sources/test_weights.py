from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import attribound as ab
from attribound.auditing.sources.weights import existing, load_weights, read_weights
from auditing.sources import hostile, nets


def weights(scale: float = 2.0) -> dict[str, torch.Tensor]:
    return {k: torch.full_like(v, scale) for k, v in nets.build().state_dict().items()}


def stored(model: nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.state_dict())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda w: w,
        lambda w: {"state_dict": w, "epoch": 3},
        lambda w: {"model": w, "optimizer": {"lr": 0.1}},
        lambda w: {"model_state_dict": w},
    ],
)
def test_checkpoints_of_tensors(wrap, tmp_path) -> None:
    torch.save(wrap(weights()), tmp_path / "net.pt")
    model = nets.build()
    assert load_weights(model, tmp_path / "net.pt") == ()
    assert all(torch.equal(v, weights()[k]) for k, v in stored(model).items())


def test_safetensors(tmp_path) -> None:
    save_file(weights(), tmp_path / "net.safetensors")
    model = nets.build()
    assert load_weights(model, tmp_path / "net.safetensors") == ()
    assert all(torch.equal(v, weights()[k]) for k, v in stored(model).items())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_names_of_wrappers_are_taken_off(prefix, tmp_path) -> None:
    save_file({f"{prefix}{k}": v for k, v in weights().items()}, tmp_path / "net.safetensors")
    model = nets.build()
    (note,) = load_weights(model, tmp_path / "net.safetensors")
    assert note == f"{prefix!r} was taken off the names of the weights"
    assert torch.equal(model[0].bias, weights()["0.bias"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_converted_with_a_note(dtype, tmp_path) -> None:
    half = {k: (v / 3).to(dtype) for k, v in weights().items()}
    save_file(half, tmp_path / "net.safetensors")
    model = nets.build()
    (note,) = load_weights(model, tmp_path / "net.safetensors")
    assert note == f"weights in {str(dtype)[6:]} were converted to float32"
    assert all(
        v.dtype == torch.float32 and torch.equal(v, half[k].float())
        for k, v in stored(model).items()
    )


def test_double_precision_is_kept(tmp_path) -> None:
    double = {k: v.double() / 3 for k, v in weights().items()}
    save_file(double, tmp_path / "net.safetensors")
    model = nets.build()
    assert load_weights(model, tmp_path / "net.safetensors") == ()
    assert all(torch.equal(v, double[k]) for k, v in stored(model).items())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: w.pop("0.bias"), "missing: 0.bias; give the factory the settings"),
        (lambda w: w.update(extra=torch.ones(1)), "not in the network: extra;"),
        (
            lambda w: w.update({"0.bias": torch.ones(7)}),
            r"of another shape: 0.bias \(7,\) for \(3,\)",
        ),
        (
            lambda w: w.update({f"x{i}": torch.ones(1) for i in range(9)}),
            r"x0, x1, x2, x3, x4 and 4 more",
        ),
    ],
)
def test_other_weights_are_refused_by_name(change, match, tmp_path) -> None:
    changed = weights()
    change(changed)
    save_file(changed, tmp_path / "net.safetensors")
    model = nets.build()
    before = {k: v.clone() for k, v in stored(model).items()}
    with pytest.raises(ab.InputError, match=match):
        load_weights(model, tmp_path / "net.safetensors")
    assert all(torch.equal(v, before[k]) for k, v in stored(model).items())


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.ckpt", "net.bin", "net"])
def test_a_hostile_pickle_does_nothing(name, tmp_path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / name).write_bytes(hostile.pickled(marker))
    with pytest.raises(ab.InputError, match="running code from it") as refused:
        read_weights(tmp_path / name)
    assert not marker.exists()
    assert 'torch.load("model.pt", weights_only=False)' in str(refused.value)
    assert "save_file(" in str(refused.value)


def test_the_bomb_works_where_it_is_let_off(tmp_path) -> None:
    """Else the tests above would show nothing."""
    torch.save(hostile.Bomb(tmp_path / "marker"), tmp_path / "net.pt")
    torch.load(tmp_path / "net.pt", weights_only=False)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("place", ["whole", "inside", "beside"])
def test_a_hostile_checkpoint_does_nothing(place, tmp_path) -> None:
    bomb = hostile.Bomb(tmp_path / "marker")
    content = {
        "whole": bomb,
        "inside": {"state_dict": {**weights(), "0.bias": bomb}},
        "beside": {"state_dict": weights(), "config": bomb},
    }
    torch.save(content[place], tmp_path / "net.pt")
    with pytest.raises(ab.InputError, match=r"net.pt: expected a file of weights alone.*mkdir"):
        load_weights(nets.build(), tmp_path / "net.pt")
    assert not (tmp_path / "marker").exists()


def test_a_pickled_module_is_refused_and_the_way_to_convert_it_works(tmp_path, monkeypatch) -> None:
    """The lines of the message, run as they are, give a file that loads."""
    monkeypatch.chdir(tmp_path)
    model = nn.Sequential(nn.Linear(4, 3), nn.Softplus(), nn.Linear(3, 2))
    torch.save(model, "model.pt")
    with pytest.raises(ab.InputError, match="a file of weights alone") as refused:
        read_weights(tmp_path / "model.pt")
    lines = re.findall(r"^    (.*)", str(refused.value), re.MULTILINE)
    exec("\n".join(lines), {})
    again = nets.build()
    load_weights(again, tmp_path / "net.safetensors")
    assert all(torch.equal(v, stored(model)[k]) for k, v in stored(again).items())


@pytest.mark.parametrize("content", [[1, 2], {"state_dict": {"a": 1}}, {"epoch": 3}, {}, {1: 2}])
def test_what_has_no_weights_is_refused(content, tmp_path) -> None:
    torch.save(content, tmp_path / "net.pt")
    with pytest.raises(ab.InputError, match=r"weights by name|missing: 0.weight"):
        load_weights(nets.build(), tmp_path / "net.pt")


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt"])
@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04"])
def test_damaged_files(name, content, tmp_path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ab.InputError, match=f"{name}: expected a"):
        read_weights(tmp_path / name)


def test_a_truncated_checkpoint(tmp_path) -> None:
    torch.save(weights(), tmp_path / "net.pt")
    (tmp_path / "net.pt").write_bytes((tmp_path / "net.pt").read_bytes()[:-100])
    with pytest.raises(ab.InputError, match=r"net.pt: expected a file of weights alone"):
        read_weights(tmp_path / "net.pt")


def test_a_script_archive_is_refused(tmp_path) -> None:
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.trace(nets.build(), torch.ones(1, 4)), str(tmp_path / "net.pt"))
    with pytest.raises(ab.InputError, match=r"net.pt: expected a file of weights alone"):
        read_weights(tmp_path / "net.pt")


def test_missing_files(tmp_path) -> None:
    with pytest.raises(ab.InputError, match="expected a file, got nothing of that name"):
        existing(tmp_path / "net")
    with pytest.raises(ab.InputError, match="expected a file, got a directory"):
        existing(tmp_path)
