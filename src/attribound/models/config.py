"""Configs: everything a network is built from except its weights, as values and as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import nn

from attribound.basics.errors import InputError
from attribound.models.mlp import MLP
from attribound.models.normalisation import Normalisation, Normalised
from attribound.models.resnet import ResNet18, Stem
from attribound.models.resnet50 import ResNet50, Strided
from attribound.models.settings import SOFTPLUS, Activation, Pooling
from attribound.models.small_cnn import SmallCNN


@dataclass(frozen=True, kw_only=True)
class Config(ABC):
    """An architecture and its settings; equal configs build equal networks.

    Settings are checked when the network is built, except the kinds of activation
    and normalisation, which must be values that can be written as JSON.

    Attributes:
        architecture: its name in JSON.
        activation: of every hidden layer.
        normalisation: of the inputs, a module in front of the network.
    """

    architecture: ClassVar[str]

    activation: Activation = SOFTPLUS
    normalisation: Normalisation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.activation, Activation):
            raise InputError(
                "activation",
                expected="an Activation",
                got=repr(self.activation),
                remedy="use Activation(beta=20) for softplus, Activation.relu() for ReLU",
            )
        if not isinstance(self.normalisation, Normalisation | None):
            raise InputError(
                "normalisation",
                expected="a Normalisation or None",
                got=repr(self.normalisation),
                remedy="use e.g. Normalisation(mean=(0.5,), std=(0.25,))",
            )

    @abstractmethod
    def network(self) -> nn.Module:
        """The network itself with new weights, without normalisation."""

    def to_json(self) -> dict[str, object]:
        """The architecture and all settings, defaults too, as JSON has them."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            "architecture": self.architecture,
            **{name: _plain(value) for name, value in settings.items()},
        }


@dataclass(frozen=True, kw_only=True)
class MLPConfig(Config):
    """Settings of an :class:`MLP`."""

    architecture = "mlp"

    features: int = 784
    hidden: tuple[int, ...] = (100, 100)
    classes: int = 10

    def network(self) -> MLP:
        """The network with new weights."""
        return MLP(self.features, self.hidden, self.classes, self.activation)


@dataclass(frozen=True, kw_only=True)
class SmallCNNConfig(Config):
    """Settings of a :class:`SmallCNN`."""

    architecture = "small_cnn"

    pooling: Pooling = "average"
    classes: int = 10

    def network(self) -> SmallCNN:
        """The network with new weights."""
        return SmallCNN(self.activation, self.pooling, self.classes)


@dataclass(frozen=True, kw_only=True)
class ResNet18Config(Config):
    """Settings of a :class:`ResNet18`."""

    architecture = "resnet18"

    channels: int = 3
    classes: int = 10
    width: int = 64
    stem: Stem = "cifar"
    pooling: Pooling = "average"

    def network(self) -> ResNet18:
        """The network with new weights."""
        return ResNet18(
            self.channels, self.classes, self.width, self.stem, self.pooling, self.activation
        )


@dataclass(frozen=True, kw_only=True)
class ResNet50Config(Config):
    """Settings of a :class:`ResNet50`."""

    architecture = "resnet50"

    channels: int = 3
    classes: int = 1000
    width: int = 64
    strided: Strided = "3x3"
    norm_epsilon: float = 1e-5
    pooling: Pooling = "average"

    def network(self) -> ResNet50:
        """The network with new weights."""
        sizes = self.channels, self.classes, self.width
        return ResNet50(*sizes, self.strided, self.norm_epsilon, self.pooling, self.activation)


ARCHITECTURES: dict[str, type[Config]] = {
    kind.architecture: kind for kind in (MLPConfig, SmallCNNConfig, ResNet18Config, ResNet50Config)
}


def build(config: Config) -> nn.Module:
    """The network of a config with new weights, drawn from PyTorch's global generator.

    >>> build(MLPConfig(features=4, hidden=(3,), classes=2))
    MLP(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=4, out_features=3, bias=True)
      (2): Softplus(beta=20.0, threshold=20.0)
      (3): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    return normalised(config, config.network())


def normalised(config: Config, network: nn.Module) -> nn.Module:
    """``network`` behind the normalisation of ``config``, if it has one."""
    if config.normalisation is None:
        return network
    return Normalised(config.normalisation, network)


def config_from_json(data: object) -> Config:
    """The config whose ``to_json`` gave ``data``; a setting left out takes its default.

    >>> config_from_json({"architecture": "mlp", "hidden": [50], "activation": "relu"}).hidden
    (50,)
    """
    name = data.get("architecture") if isinstance(data, Mapping) else None
    kind = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if not isinstance(data, Mapping) or kind is None:
        raise InputError(
            "architecture",
            expected=" or ".join(map(repr, ARCHITECTURES)),
            got=repr(name if isinstance(data, Mapping) else data),
            remedy='give the config as {"architecture": name, setting: value, ...}',
        )
    settings = {key: value for key, value in data.items() if key != "architecture"}
    known = [field.name for field in fields(kind)]
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise InputError(
            f"settings of {name}",
            expected=f"only {', '.join(known)}",
            got=", ".join(map(repr, unknown)),
            remedy="remove what is misspelt; if a newer attribound wrote it, use that one",
        )
    values: dict[str, Any] = {
        key: _READERS.get(key, _as_is)(value) for key, value in settings.items()
    }
    return kind(**values)


def _plain(value: object) -> object:
    if isinstance(value, (Activation, Normalisation)):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value


def _as_is(value: object) -> object:
    return value


def _normalisation(value: object) -> object:
    return None if value is None else Normalisation.from_json(value)


def _hidden(value: object) -> object:
    if not isinstance(value, list):
        raise InputError(
            "hidden",
            expected="a list of widths",
            got=repr(value),
            remedy="use e.g. [100, 100]",
        )
    return tuple(value)


_READERS: dict[str, Callable[[object], object]] = {
    "activation": Activation.from_json,
    "normalisation": _normalisation,
    "hidden": _hidden,
}
