from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.models import (
    MLP,
    Activation,
    Config,
    MLPConfig,
    Normalisation,
    ResNet18,
    ResNet18Config,
    ResNet50,
    ResNet50Config,
    SmallCNN,
    SmallCNNConfig,
    build,
    config_from_json,
)
from attribound.models.normalisation import Normalised

#: A config with no default setting for every architecture, and its network by constructor.
OTHERS: dict[str, tuple[Config, nn.Module]] = {
    "mlp": (
        MLPConfig(features=12, hidden=(5, 4, 3), classes=2, activation=Activation(5.0)),
        MLP(12, (5, 4, 3), 2, lambda: nn.Softplus(5.0)),
    ),
    "small_cnn": (
        SmallCNNConfig(pooling="max", classes=3, activation=Activation.relu()),
        SmallCNN(nn.ReLU, "max", 3),
    ),
    "resnet18": (
        ResNet18Config(
            channels=1,
            classes=5,
            width=3,
            stem="imagenet",
            pooling="max",
            activation=Activation.relu(),
        ),
        ResNet18(1, 5, 3, "imagenet", "max", nn.ReLU),
    ),
    "resnet50": (
        ResNet50Config(
            channels=1,
            classes=5,
            width=3,
            strided="1x1",
            norm_epsilon=1e-3,
            pooling="max",
            activation=Activation.relu(),
        ),
        ResNet50(1, 5, 3, "1x1", 1e-3, "max", nn.ReLU),
    ),
}
DEFAULTS = {"mlp": (MLPConfig(), MLP), "small_cnn": (SmallCNNConfig(), SmallCNN)}
DEFAULTS["resnet18"] = (ResNet18Config(), ResNet18)
DEFAULTS["resnet50"] = (ResNet50Config(), ResNet50)


def shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in model.state_dict().items()}


@pytest.mark.parametrize("name", OTHERS)
def test_builds_what_the_constructor_does(name) -> None:
    """The print of a module shows its layers, activations and poolings."""
    config, network = OTHERS[name]
    assert str(build(config)) == str(network)
    assert shapes(build(config)) == shapes(network)
    config, constructor = DEFAULTS[name]
    with torch.device("meta"):
        assert str(build(config)) == str(constructor())
        assert str(build(config)) != str(network)


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_changes_the_network(name) -> None:
    """Else a setting would be stored and not obeyed."""
    config, _ = OTHERS[name]
    with torch.device("meta"):
        whole = str(build(config))
        for setting in config.to_json().keys() - {"architecture", "normalisation", "stem"}:
            data = {key: value for key, value in config.to_json().items() if key != setting}
            assert str(build(config_from_json(data))) != whole, setting


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("normalisation", [None, Normalisation((0.5,), (0.25,))])
def test_goes_through_json(name, normalisation) -> None:
    kind = type(OTHERS[name][0])
    for config in (OTHERS[name][0], DEFAULTS[name][0], kind(normalisation=normalisation)):
        data = json.loads(json.dumps(config.to_json()))
        assert data["architecture"] == name
        assert config_from_json(data) == config
        assert hash(config_from_json(data)) == hash(config)
    assert OTHERS[name][0] != DEFAULTS[name][0]


def test_json_has_the_documented_form() -> None:
    assert ResNet18Config(width=16).to_json() == {
        "architecture": "resnet18",
        "activation": {"softplus": 20.0},
        "normalisation": None,
        "channels": 3,
        "classes": 10,
        "width": 16,
        "stem": "cifar",
        "pooling": "average",
    }


def test_normalisation_comes_in_front() -> None:
    config = SmallCNNConfig(normalisation=Normalisation((0.5,), (0.25,)))
    model = build(config).eval()
    assert isinstance(model, Normalised)
    nn.init.normal_(model.network.classifier.fc3.weight)  # it starts with equal logits
    x = torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(model(x), model.network(4 * x - 2))
    assert not torch.allclose(model(x), model.network(x))


def test_a_config_is_a_value() -> None:
    with pytest.raises(FrozenInstanceError):
        MLPConfig().classes = 3  # type: ignore[misc]
    assert len({MLPConfig(), MLPConfig(classes=10), MLPConfig(classes=3)}) == 2


@pytest.mark.parametrize("data", [{}, {"architecture": "vgg"}, {"architecture": ["mlp"]}, "mlp", 3])
def test_refuses_an_unknown_architecture(data) -> None:
    with pytest.raises(ab.InputError, match="architecture: expected 'mlp' or 'small_cnn' or 'resn"):
        config_from_json(data)


def test_refuses_unknown_settings() -> None:
    with pytest.raises(ab.InputError, match=r"settings of small_cnn: expected only.*got 'width'"):
        config_from_json({"architecture": "small_cnn", "width": 3})


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"hidden": 3}, "hidden: expected a list of widths, got 3"),
        ({"hidden": ["3"]}, "widths: expected 1 or more in every layer"),
        ({"classes": None}, "widths: expected 1 or more in every layer"),
        ({"activation": "tanh"}, "activation: expected"),
        ({"normalisation": 0.5}, "normalisation: expected"),
    ],
)
def test_refuses_settings_of_another_kind(setting, match) -> None:
    with pytest.raises(ab.InputError, match=match):
        build(config_from_json({"architecture": "mlp", **setting}))


def test_refuses_what_has_no_json() -> None:
    with pytest.raises(ab.InputError, match="activation: expected an Activation, got <class"):
        MLPConfig(activation=nn.ReLU)
    with pytest.raises(ab.InputError, match="normalisation: expected a Normalisation or None"):
        MLPConfig(normalisation=(0.5, 0.25))
