"""Networks with kinks, as people run them, and the data they are asked about."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

import attribound as ab
import credit
import fashion
from attribound.models import Activation, ResNet18Config

_IMAGES = (ab.L2Ball(0.01), ab.L2Ball(0.05), ab.L2Ball(0.2), ab.LinfBall(0.005))
_CUSTOMERS = (ab.L2Ball(0.02), ab.L2Ball(0.1), ab.L2Ball(0.2))  # in standard deviations
_AT_ONCE = 250  # examples classified together
_PICTURES = 500  # of CIFAR-10, the first ones
_ZOO = Path(__file__).resolve().parents[2] / "zoo" / "models"


@dataclass(frozen=True, eq=False)
class Network:
    """A network, where its weights come from, and what is asked about it.

    Attributes:
        size: ``mlp``, ``cnn``, ``narrow`` or ``wide``: how much effort can be afforded.
        make: gives it, in eval mode.
        examples: gives test inputs and labels.
        needs: files without which it is left out.
    """

    name: str
    about: str
    size: str
    make: Callable[[], nn.Module]
    examples: Callable[[], tuple[Tensor, Tensor]]
    balls: tuple[ab.Ball, ...]
    needs: tuple[Path, ...]

    @property
    def missing(self) -> str | None:
        """Why it has to be left out, if it has to."""
        lacking = [path for path in self.needs if not path.exists()]
        return f"{self.name} is left out: no {lacking[0]}" if lacking else None


def _fashion(name: str, stored: str, about: str, size: str) -> Network:
    """Weights that were trained with softplus, beta 20, run with ReLU."""

    def make() -> nn.Module:
        return _with_relu(fashion.network(stored))

    needs = (fashion.FASHION, fashion.WEIGHTS)
    images = partial(fashion.images, "t10k")
    return Network(name, f"{about}, Fashion-MNIST", size, make, images, _IMAGES, needs)


def _credit(table: str, training: str) -> Network:
    """Trained with ReLU."""
    name = f"{table}-{training}"
    about = f"MLP with two hidden layers of 64, {table.capitalize()} credit"
    needs = (credit.path_of(table), credit.WEIGHTS)
    make, test = partial(credit.network, name), partial(credit.customers, table, "test")
    return Network(f"credit-{name}", about, "mlp", make, test, _CUSTOMERS, needs)


def _narrow(name: str, training: str, about: str) -> Network:
    """Of the zoo, trained with softplus, beta 20, run with ReLU."""
    file = f"{training}-resnet18.safetensors"

    def make() -> nn.Module:
        return _with_relu(ab.models.load(_ZOO / "cifar10" / file))

    needs = (_cifar10(), _ZOO / "cifar10" / file)
    return Network(name, f"{about}, CIFAR-10", "narrow", make, _pictures, _IMAGES, needs)


def _standard() -> Network:
    """Weights that others trained, with ReLU."""
    file = credit.shared("checkpoints", "cifar10-resnet18-standard.safetensors")
    make = partial(ab.models.load, file, ResNet18Config(activation=Activation.relu()))
    about = "ResNet-18, CIFAR-10"
    return Network("resnet18", about, "wide", make, _pictures, _IMAGES, (_cifar10(), file))


def _with_relu(model: nn.Module) -> nn.Module:
    """The same weights with ReLU in place of softplus."""
    for parent in [*model.modules()]:
        for name, child in parent.named_children():
            if isinstance(child, nn.Softplus):
                setattr(parent, name, nn.ReLU())
    return model.eval()


def _cifar10() -> Path:
    return credit.shared("cifar10")


def _pictures() -> tuple[Tensor, Tensor]:
    pictures = ab.data.load("cifar10", "test", root=_cifar10().parent)
    rows = torch.arange(_PICTURES)
    return pictures.read(rows), pictures.labels[rows]


NETWORKS = {
    each.name: each
    for each in (
        _credit("german", "nat"),
        _credit("german", "at"),
        _credit("taiwan", "nat"),
        _credit("taiwan", "at"),
        _fashion("mlp-nat", "mlp-nat-b20", "MLP 784-100-100-10", "mlp"),
        _fashion("mlp-at", "mlp-at-b20", "MLP 784-100-100-10", "mlp"),
        _fashion("cnn-nat", "nat", "SmallCNN", "cnn"),
        _fashion("cnn-at", "at", "SmallCNN", "cnn"),
        _narrow("narrow-nat", "ce", "ResNet-18 of width 16"),
        _narrow("narrow-at", "at", "ResNet-18 of width 16"),
        _standard(),
    )
}
#: Of which certificates alone are asked.
CERTIFIED = {
    each.name: each
    for each in (
        _fashion("mlp4-nat", "mlp4-nat-b20", "MLP 784-100-100-100-100-10", "deeper"),
        _fashion("mlp4-at", "mlp4-at-b20", "MLP 784-100-100-100-100-10", "deeper"),
        _fashion("tiny-nat", "tiny-nat-b20", "CNN of 6 and 12 channels", "tiny"),
        _fashion("tiny-at", "tiny-at-b20", "CNN of 6 and 12 channels", "tiny"),
    )
}


def network_of(name: str) -> Network:
    """Of either kind."""
    return NETWORKS.get(name) or CERTIFIED[name]


@cache
def model_of(name: str) -> nn.Module:
    """The network, without gradients of its parameters."""
    return network_of(name).make().requires_grad_(False)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The examples a network classifies correctly, in a random order, and how many it does."""

    index: Tensor
    x: Tensor
    labels: Tensor
    accuracy: float


@cache
def chosen(name: str, seed: int) -> Chosen:
    """Of the test data of a network."""
    x, y = network_of(name).examples()
    with torch.no_grad():
        hits = torch.cat([model_of(name)(some).argmax(1) for some in x.split(_AT_ONCE)]) == y
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    order = order[hits[order]]
    return Chosen(order, x[order], y[order], hits.double().mean().item())


@cache
def recognised(name: str) -> str:
    """Digest of a network: what it is made of and its weights."""
    model = model_of(name)
    digest = hashlib.sha256(str(model).encode())
    for key, value in model.state_dict().items():
        digest.update(key.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]
