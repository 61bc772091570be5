from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
from attribound import models, zoo
from attribound.auditing.sources import load_model
from attribound.auditing.sources import model as sources_model
from attribound.auditing.sources.loaded import loaded
from attribound.models import MLPConfig
from attribound.networks.fingerprint import fingerprint
from auditing.sources import hostile, nets

CONFIG = MLPConfig(features=4, hidden=(3,), classes=2)


def test_a_file_saved_by_models(tmp_path) -> None:
    network = models.build(CONFIG)
    models.save(network, CONFIG, tmp_path / "small.safetensors")
    found = load_model(str(tmp_path / "small.safetensors"))
    x = torch.rand(2, 4)
    assert torch.equal(found.model(x), network(x))
    assert not found.model.training
    assert found.name == "small"
    assert found.details["kind"] == "safetensors"


def test_half_precision_becomes_float32_with_a_note_and_a_stable_fingerprint(tmp_path) -> None:
    network = models.build(CONFIG).half()
    models.save(network, CONFIG, tmp_path / "half.safetensors")
    first, second = (load_model(str(tmp_path / "half.safetensors")) for _ in range(2))
    assert first.details["notes"] == ["weights in float16 were converted to float32"]
    assert {p.dtype for p in first.model.parameters()} == {torch.float32}
    assert torch.equal(first.model[1].weight, network[1].weight.float())
    assert fingerprint("m", first.model) == fingerprint("m", second.model)
    models.save(network.float(), CONFIG, tmp_path / "single.safetensors")
    single = load_model(str(tmp_path / "single.safetensors"))
    assert single.details["notes"] == []
    assert fingerprint("m", single.model) == fingerprint("m", first.model)


def test_a_model_of_the_zoo(monkeypatch) -> None:
    class Card:
        class weights:
            sha256 = "ab" * 32

    monkeypatch.setattr(zoo, "load", lambda name: nn.Linear(2, len(name)))
    monkeypatch.setattr(zoo, "card", lambda _: Card)
    found = load_model("zoo:fashion-mnist/at")
    assert found.model.out_features == len("fashion-mnist/at")
    assert not found.model.training
    assert found.name == "zoo:fashion-mnist/at"
    assert found.details == {"kind": "zoo", "sha256": "ab" * 32, "notes": []}


def test_an_unknown_name_of_the_zoo() -> None:
    with pytest.raises(ab.InputError, match="name of a model"):
        load_model("zoo:no-data/no-method")


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("fashion-mnist/att", "did you mean zoo:fashion-mnist/at"),
        ("zoo/fashion-mnist/at", "did you mean zoo:fashion-mnist/at"),
        ("net.safetensor", "did you mean net.safetensors"),
        ("net.onxx", "did you mean net.onnx"),
        ("???", "write it as one of these"),
    ],
)
def test_unknown_kinds_are_refused_with_the_nearest(spec, match, monkeypatch) -> None:
    monkeypatch.setattr(sources_model.zoo, "names", lambda: ("fashion-mnist/at", "mnist/ce"))
    with pytest.raises(ab.InputError, match=f"zoo:NAME or MODULE:FACTORY or .*{match}"):
        load_model(spec)


@pytest.mark.parametrize("suffix", ["pt", "pth", "pkl", "bin", "ckpt", "pickle", "joblib", "tar"])
def test_a_pickle_is_not_opened(suffix, tmp_path) -> None:
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(hostile.pickled(tmp_path / "marker"))
    with pytest.raises(ab.InputError, match=r"was not opened; if you trust it"):
        load_model(str(path))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("suffix", ["safetensors", "pt2", "onnx"])
def test_a_pickle_under_another_name_does_nothing(suffix, tmp_path) -> None:
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(hostile.pickled(tmp_path / "marker"))
    with pytest.raises(ab.InputError, match=f"model.{suffix}: expected a"):
        load_model(str(path))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("spec", ["zoo:a/b", "net.safetensors", "net.pt2", "net.onnx"])
def test_weights_are_for_factories(spec) -> None:
    with pytest.raises(ab.InputError, match=r"weights: expected nothing.* got other.pt"):
        load_model(spec, "other.pt")


@pytest.mark.parametrize("spec", ["net.safetensors", "net.pt2", "net.onnx"])
def test_missing_files(spec, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ab.InputError, match=f"{spec}: expected a file, got nothing"):
        load_model(spec)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(value) -> None:
    network = nets.build()
    loaded(network, "net", {})
    network[2].bias.data[0] = value
    with pytest.raises(ab.ModelError, match=r"net: expected finite weights, .* in '2.bias'"):
        loaded(network, "net", {})
