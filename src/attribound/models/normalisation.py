"""Normalise inputs inside the model, so that attacks and bounds see pixels in [0, 1]."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attribound.basics.errors import InputError
from attribound.basics.numbers import is_finite


@dataclass(frozen=True)
class Normalisation:
    """``(x - mean) / std``, with one number per channel or one for all.

    A ball of radius eps around the pixels is no ball of a round radius around the
    normalised ones: that is why normalising is part of the model.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if not (isinstance(value, (list, tuple)) and value and all(map(is_finite, value))):
                raise InputError(
                    f"{name} of the normalisation",
                    expected="a list of finite numbers, one per channel",
                    got=repr(value),
                    remedy="use e.g. Normalisation(mean=(0.5,), std=(0.25,))",
                )
            object.__setattr__(self, name, tuple(map(float, value)))
        if len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise InputError(
                "std of the normalisation",
                expected=f"{len(self.mean)} numbers above 0, one for each mean",
                got=repr(self.std),
                remedy="take mean and standard deviation of the same channels",
            )

    def to_json(self) -> object:
        """``{"mean": [...], "std": [...]}``."""
        return {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, data: object) -> Normalisation:
        """What :meth:`to_json` gave."""
        if not (isinstance(data, Mapping) and set(data) == {"mean", "std"}):
            raise InputError(
                "normalisation",
                expected='{"mean": [...], "std": [...]} or null',
                got=repr(data),
                remedy="give both, one number per channel",
            )
        return cls(data["mean"], data["std"])


class Normalise(nn.Module):
    """Normalised copies of inputs ``(batch, channels, *positions)``."""

    mean: Tensor
    std: Tensor

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        self.normalisation = normalisation
        # Not saved: they belong to the config, and files keep the keys of the network.
        self.register_buffer("mean", torch.tensor(normalisation.mean), persistent=False)
        self.register_buffer("std", torch.tensor(normalisation.std), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``(x - mean) / std``."""
        channels = len(self.mean)
        if channels not in (1, x.shape[1]):  # would broadcast grey images to colour
            raise InputError(
                "x",
                expected=f"{channels} channels, as the normalisation has",
                got=f"shape {tuple(x.shape)}",
                remedy="pass images (batch, channels, height, width)",
            )
        shape = (channels, *[1] * (x.dim() - 2))
        return (x - self.mean.view(shape)) / self.std.view(shape)

    def extra_repr(self) -> str:
        """Mean and standard deviation."""
        return f"mean={self.normalisation.mean}, std={self.normalisation.std}"


class Normalised(nn.Sequential):
    """A network with the normalisation of its inputs in front."""

    def __init__(self, normalisation: Normalisation, network: nn.Module) -> None:
        super().__init__(OrderedDict(normalise=Normalise(normalisation), network=network))
