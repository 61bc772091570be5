"""Measures on attribution maps: distance, angle, and those of the IFIA attack."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attacks.objectives import MapObjective
from attribound.basics.errors import InputError
from attribound.basics.numbers import check_count
from attribound.basics.tensors import dot, norm
from attribound.values import register


@register("distance")
@dataclass(frozen=True)
class Distance(MapObjective):
    """Euclidean distance of the two maps."""

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """|after - before|."""
        return norm(after - before)


@register("angle")
@dataclass(frozen=True)
class Angle(MapObjective):
    """Cosine distance of the two maps."""

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """1 - cos; 1 where a map is zero."""
        tiny = torch.finfo(after.dtype).tiny
        return 1 - dot(after, before) / (norm(after) * norm(before)).clamp_min(tiny)


def usual_k(scores: int) -> int:
    """The paper's 100, or 1000 for larger maps; at most a third, above which all agree.

    >>> usual_k(784), usual_k(3072), usual_k(64)
    (100, 1000, 22)
    """
    return min(100 if scores <= 1024 else 1000, math.ceil(scores / 3))


@register("top_k")
@dataclass(frozen=True)
class TopK(MapObjective):
    """IFIA top-k: take weight away from the k features that were most important.

    Attributes:
        k: how many; None for :func:`usual_k`, the paper's.
    """

    k: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no number of features."""
        if self.k is not None:
            check_count("k", self.k, "use about an eighth of the features")

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """Minus the sum of |after| over the clean top k."""
        top = self._top(before)
        return -after.flatten(1).abs().gather(1, top).sum(1)

    def measure(self, after: Tensor, before: Tensor) -> Tensor:
        """How many of the clean top k have left the top k."""
        was = torch.zeros_like(before.flatten(1)).scatter(1, self._top(before), 1.0)
        top = self._top(after)
        return top.shape[1] - was.gather(1, top).sum(1)

    def _top(self, values: Tensor) -> Tensor:
        flat = values.flatten(1).abs()
        k = usual_k(flat.shape[1]) if self.k is None else self.k
        if not 1 <= k <= flat.shape[1]:
            raise InputError(
                "k",
                expected=f"a number of features from 1 to {flat.shape[1]}",
                got=repr(self.k),
                remedy="use about an eighth of the features",
            )
        return flat.topk(k).indices


@register("mass_centre")
@dataclass(frozen=True)
class MassCentre(MapObjective):
    """IFIA mass-centre: move the centre of gravity of |map| as far as possible.

    Over the pixels of images ``(batch, channels, height, width)``, channels summed; over
    all feature dimensions otherwise.
    """

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """Squared distance of the two centres."""
        return ((self._centre(after) - self._centre(before)) ** 2).sum(1)

    def _centre(self, values: Tensor) -> Tensor:
        mass = values.abs().sum(1) if values.dim() == 4 else values.abs()
        axes = [torch.arange(n, dtype=mass.dtype, device=mass.device) for n in mass.shape[1:]]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij")).flatten(1)
        weight = mass.flatten(1)
        total = weight.sum(1, keepdim=True).clamp_min(torch.finfo(mass.dtype).tiny)
        return (weight @ grid.T) / total


@register("targeted")
@dataclass(frozen=True, eq=False)
class Targeted(MapObjective):
    """IFIA targeted: put weight on chosen features.

    Attributes:
        region: True where the weight should go, of the shape of one map.
    """

    region: Tensor

    def score(self, after: Tensor, before: Tensor) -> Tensor:
        """Sum of |after| over the region."""
        if self.region.shape != before.shape[1:]:
            raise InputError(
                "region",
                expected=f"a mask of the shape of one map, {tuple(before.shape[1:])}",
                got=f"shape {tuple(self.region.shape)}",
                remedy="mark the features that shall look important",
            )
        return (after.abs() * self.region.to(after)).flatten(1).sum(1)
