from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import attribound as ab
from attribound.models import (
    Activation,
    Config,
    MLPConfig,
    Normalisation,
    ResNet18Config,
    SmallCNNConfig,
    build,
    load,
    save,
)
from attribound.models.files import KEY

GREY = Normalisation((0.5,), (0.25,))
NETWORKS: dict[str, tuple[Config, tuple[int, ...]]] = {
    "mlp": (MLPConfig(features=6, hidden=(5,), classes=3, activation=Activation(5.0)), (6,)),
    "small_cnn": (SmallCNNConfig(pooling="max"), (1, 28, 28)),
    "resnet18": (ResNet18Config(width=2), (3, 16, 16)),
    "normalised": (MLPConfig(features=6, normalisation=GREY), (6,)),
}
SMALL = MLPConfig(features=4, hidden=(3,), classes=2)


def trained(config: Config) -> nn.Module:
    """A network none of whose parameters and buffers is what it started with."""
    torch.manual_seed(0)
    model = build(config)
    for value in model.state_dict().values():
        value.copy_(torch.rand(value.shape) + 0.5 if value.is_floating_point() else value + 3)
    return model


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_comes_back_as_it_was(name, dtype, tmp_path) -> None:
    config, shape = NETWORKS[name]
    model = trained(config).to(dtype)
    save(model, config, tmp_path / "net.safetensors")
    again = load(tmp_path / "net.safetensors")
    assert str(again) == str(model)
    assert not again.training
    assert all(p.requires_grad and p.is_leaf for p in again.parameters())
    assert {n: v.dtype for n, v in again.state_dict().items()} == {
        n: v.dtype for n, v in model.state_dict().items()
    }
    x = torch.rand(2, *shape, dtype=dtype)
    assert torch.equal(again(x), model.eval()(x))
    assert not torch.equal(build(config).to(dtype).eval()(x), model(x))


def test_the_file_has_the_config_as_json_and_the_keys_of_the_network(tmp_path) -> None:
    config, _ = NETWORKS["normalised"]
    save(trained(config), config, tmp_path / "net")
    with safe_open(tmp_path / "net", framework="pt") as file:
        assert json.loads(file.metadata()[KEY]) == config.to_json()
        assert set(file.keys()) == {f"{i}.{part}" for i in (1, 3, 5) for part in ("weight", "bias")}


def test_what_was_saved_can_be_trained_on(tmp_path) -> None:
    config, shape = NETWORKS["resnet18"]
    save(trained(config), config, tmp_path / "net")
    model = load(tmp_path / "net").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    nn.functional.cross_entropy(model(torch.rand(4, *shape)), torch.tensor([0, 1, 2, 3])).backward()
    optimiser.step()
    after = model.state_dict()
    assert all(not torch.equal(after[name], before[name]) for name in after)


def test_loading_draws_no_random_numbers_and_keeps_no_tie_to_the_file(tmp_path) -> None:
    path = tmp_path / "net"
    save(trained(SMALL), SMALL, path)
    state = torch.get_rng_state()
    model = load(path)
    assert torch.equal(torch.get_rng_state(), state)
    before = model(torch.ones(1, 4))
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(model(torch.ones(1, 4)), before)


@pytest.mark.parametrize("name", ["fashion-mnist/at", "fashion-mnist/at-mlp"])
def test_loading_does_not_load_the_compiler_of_torch(name) -> None:
    """It takes a second, and comes with the first random number on the meta device."""
    code = f"import sys; from attribound import zoo; zoo.load({name!r})"
    code += "; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_layout_and_views_do_not_matter(tmp_path) -> None:
    config, shape = NETWORKS["resnet18"]
    model = trained(config).to(memory_format=torch.channels_last)
    save(model, config, tmp_path / "net")
    x = torch.rand(2, *shape)
    torch.testing.assert_close(load(tmp_path / "net")(x), model.eval()(x))


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    path = tmp_path / "net"
    save(trained(SMALL), SMALL, path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    other = trained(SMALL)
    nn.init.zeros_(other[1].weight)
    with pytest.raises(OSError, match="no space left"):
        save(other, SMALL, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["net"]
    monkeypatch.undo()
    save(other, SMALL, path)
    assert path.read_bytes() != before
    assert os.listdir(tmp_path) == ["net"]


def test_the_file_has_the_usual_permissions(tmp_path) -> None:
    """Temporary files are private by default; a saved network is to be shared."""
    save(trained(SMALL), SMALL, tmp_path / "net")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("net", "plain")}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("change", "expected", "got"),
    [
        (lambda m: ab.smooth(m, 5.0), r"MLP\(", r"SmoothMLP\("),
        (lambda m: nn.Sequential(*m), r"MLP\(", r"Sequential\("),
        (lambda _: build(MLPConfig(features=5, hidden=(3,), classes=2)), "in_features=4", "=5"),
        (lambda _: build(MLPConfig(features=4, hidden=(), classes=2)), "out_features=3", "=2"),
    ],
)
def test_refuses_a_model_that_its_config_does_not_build(change, expected, got, tmp_path) -> None:
    with pytest.raises(ab.ModelError, match=f"model: expected .*{expected}.*, got .*{got}"):
        save(change(build(SMALL)), SMALL, tmp_path / "net")
    assert not os.listdir(tmp_path)


def test_refuses_another_normalisation(tmp_path) -> None:
    config, _ = NETWORKS["normalised"]
    model = build(MLPConfig(features=6, normalisation=Normalisation((0.5,), (0.5,))))
    with pytest.raises(ab.ModelError, match=r"std=\(0\.25,\).*got .*std=\(0\.5,\)"):
        save(model, config, tmp_path / "net")


def damaged(path: Path, how: str) -> Path:
    whole = path.read_bytes()
    content = {
        "empty": b"",
        "truncated": whole[:-1],
        "longer": whole + b"\0",
        "text": b"not a network at all",
        "pickle": pickle.dumps({"weight": [1.0]}),
        "header": whole[:9] + b"#" + whole[10:],
    }
    path.write_bytes(content[how])
    return path


@pytest.mark.parametrize("how", ["empty", "truncated", "longer", "text", "pickle", "header"])
def test_refuses_a_damaged_file(how, tmp_path) -> None:
    save(trained(SMALL), SMALL, tmp_path / "net")
    with pytest.raises(ab.InputError, match=r"net: expected a whole safetensors file.*again"):
        load(damaged(tmp_path / "net", how))


def test_a_missing_file_is_missing(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="net"):
        load(tmp_path / "net")


def with_weights(path: Path, config: object = None, **changes: torch.Tensor | None) -> Path:
    """A file of the small network, its weights (with _ for .) changed or left out."""
    weights = build(SMALL).state_dict()
    for name, value in changes.items():
        weights[name.strip("_").replace("_", ".")] = value
    metadata = {} if config is None else {KEY: config if isinstance(config, str) else ""}
    save_file({n: v for n, v in weights.items() if v is not None}, path, metadata)
    return path


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"_1_bias": None}, r"floats of shape \(3,\) as '1.bias', got nothing, and 0 more"),
        ({"_7_bias": torch.ones(2)}, r"nothing as '7.bias', got floats of shape \(2,\), and 0"),
        ({"_1_weight": torch.ones(4, 3)}, r"shape \(3, 4\) as '1.weight', got .* \(4, 3\)"),
        ({"_1_bias": torch.ones(3).long()}, r"floats .* got torch.int64 of shape \(3,\)"),
        ({"_1_bias": None, "_3_bias": None}, "and 1 more that differ"),
        ({"_1_bias": torch.ones(3).half()}, "one floating-point dtype, got torch.float16, torch."),
    ],
)
def test_refuses_weights_of_another_network(changes, match, tmp_path) -> None:
    with pytest.raises(ab.InputError, match=f"net: expected .*{match}"):
        load(with_weights(tmp_path / "net", **changes), SMALL)
    load(with_weights(tmp_path / "net"), SMALL)


def test_weights_of_several_dtypes_take_the_one_asked_for(tmp_path) -> None:
    path = with_weights(tmp_path / "net", _1_weight=torch.full((3, 4), 0.1).half())
    model = load(path, SMALL, dtype=torch.float64)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert model[1].weight[0, 0] == torch.tensor(0.1).half().double()


def test_counts_of_batches_may_be_left_out(tmp_path) -> None:
    config, shape = NETWORKS["resnet18"]
    model = trained(config).eval()
    weights = {n: v for n, v in model.state_dict().items() if not n.endswith("_tracked")}
    save_file(weights, tmp_path / "net")
    again = load(tmp_path / "net", config)
    assert again.bn1.num_batches_tracked == 0
    x = torch.rand(2, *shape)
    assert torch.equal(again(x), model(x))
    save_file({n: v for n, v in weights.items() if n != "bn1.bias"}, tmp_path / "net")
    with pytest.raises(ab.InputError, match="got nothing"):
        load(tmp_path / "net", config)


def test_foreign_weights_need_a_config(tmp_path) -> None:
    path = with_weights(tmp_path / "net")
    with pytest.raises(ab.InputError, match="net: expected a config in the file or as argument"):
        load(path)
    assert str(load(path, SMALL)) == str(build(SMALL))


def test_a_config_that_contradicts_the_file_is_refused(tmp_path) -> None:
    save(trained(SMALL), SMALL, tmp_path / "net")
    relu = MLPConfig(features=4, hidden=(3,), classes=2, activation=Activation.relu())
    with pytest.raises(ab.InputError, match=r"net: expected MLPConfig\(.*beta=None.*beta=20"):
        load(tmp_path / "net", relu)
    load(tmp_path / "net", SMALL)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "config in net: expected JSON"),
        ('{"architecture": "vgg"}', "architecture: expected 'mlp'.*got 'vgg'"),
        ('{"architecture": "mlp", "depth": 3}', "settings of mlp: expected only"),
        ('{"architecture": "mlp", "classes": 0}', "widths: expected 1 or more"),
    ],
)
def test_refuses_a_config_it_cannot_read(text, match, tmp_path) -> None:
    with pytest.raises(ab.InputError, match=match):
        load(with_weights(tmp_path / "net", config=text))
