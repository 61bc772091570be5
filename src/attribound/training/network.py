"""The network of a training: its config, made complete, and its first weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from attribound import models
from attribound.basics.errors import InputError
from attribound.basics.whole_files import sha256_of
from attribound.models.config import ARCHITECTURES
from attribound.models.files import KEY
from attribound.training.config import InitialWeights
from attribound.training.draws import derived

#: The architecture for a shape, unless another is asked for; an MLP for any other.
_FITTING: dict[tuple[int, ...], str] = {(1, 28, 28): "small_cnn", (3, 32, 32): "resnet18"}


@dataclass(frozen=True, eq=False)
class FirstNetwork:
    """A network with the weights it begins with.

    Attributes:
        config: what it is built from.
        model: the network.
        sha256: of the file its weights come from, None for new ones.
    """

    config: models.Config
    model: nn.Module
    sha256: str | None


def first_network(
    settings: Mapping[str, object],
    warm_start: InitialWeights | None,
    shape: tuple[int, ...],
    classes: int,
    seed: int,
) -> FirstNetwork:
    """The network for examples of ``shape``: that of the warm start, or a new one.

    Raises:
        InputError: a setting is unusable, or the warm start is missing or of another network.
    """
    if warm_start is not None:
        return _warm(warm_start, settings)
    config = models.config_from_json(_complete(settings, shape, classes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "weights"))
        return FirstNetwork(config, models.build(config), None)


def check_fit(model: nn.Module, x: torch.Tensor, classes: int) -> None:
    """Refuse a network that cannot take the examples, or has too few logits for the classes."""
    mode = model.training
    try:
        with torch.no_grad():
            logits = model.eval()(x)
    except (RuntimeError, InputError) as error:
        raise InputError(
            "network",
            expected=f"one for examples of shape {tuple(x.shape[1:])}",
            got=str(error).splitlines()[0],
            remedy="leave network out for one that fits, or correct its settings",
        ) from error
    finally:
        model.train(mode)
    if logits.shape[1] < classes:
        raise InputError(
            "network.classes",
            expected=f"{classes} or more, as the data has",
            got=str(logits.shape[1]),
            remedy="leave classes out, or correct it",
        )


def _complete(
    settings: Mapping[str, object], shape: tuple[int, ...], classes: int
) -> dict[str, object]:
    """``settings`` with an architecture for the shape, and sizes that follow from the data."""
    name = settings.get("architecture", _FITTING.get(shape, "mlp"))
    kind = ARCHITECTURES.get(name) if isinstance(name, str) else None
    known = [field.name for field in fields(kind)] if kind is not None else []
    sizes = {"features": torch.Size(shape).numel(), "channels": shape[0], "classes": classes}
    sizes = {key: size for key, size in sizes.items() if key in known}
    return {"architecture": name, **sizes, **settings}


def _warm(warm_start: InitialWeights, settings: Mapping[str, object]) -> FirstNetwork:
    path = Path(warm_start.file).expanduser()
    if not path.is_file():
        raise InputError(
            "warm_start.file",
            expected="a safetensors file",
            got=f"{warm_start.file}, which is not there",
            remedy="check the path; names of the zoo work as zoo:NAME in attribound train, "
            "elsewhere as attribound.zoo.path(NAME)",
        )
    given = models.config_from_json(settings) if "architecture" in settings else None
    model = models.load(path, given)
    config = given or _stored(path)
    differing = [key for key, value in settings.items() if config.to_json().get(key) != value]
    if given is None and differing:
        raise InputError(
            f"network.{differing[0]}",
            expected=f"{config.to_json().get(differing[0])!r}, as in {path.name}",
            got=repr(settings[differing[0]]),
            remedy="leave network out: it comes with the warm start",
        )
    return FirstNetwork(config, model, sha256_of(path))


def _stored(path: Path) -> models.Config:
    with safe_open(path, framework="pt") as file:
        return models.config_from_json(json.loads(file.metadata()[KEY]))
