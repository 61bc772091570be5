"""Scores summed over groups of features: tokens, categories, superpixels, channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attribound.attributions.base import Linearization
from attribound.attributions.wrapped import Wrapped
from attribound.basics.errors import InputError
from attribound.operators import LinearOperator
from attribound.values import register, to_text

CHANNELS = "channels"


@register("grouped")
@dataclass(frozen=True, eq=False)
class Grouped(Wrapped):
    """The sum of an attribution over each group of its scores.

    Sums of signed scores; a group of one feature is the feature. All that holds of an attribution
    holds of it: it has a Jacobian, bounds, attacks and reasons. A bound on the map that is summed
    is one on the sums only times :attr:`stretch`.

    Attributes:
        base: the attribution that is summed.
        labels: integer labels from 0 of the shape of one map, the same for all examples; -1 leaves
            a score out. The sums are ``(batch, groups)``. ``"channels"`` sums over the first
            dimension of maps ``(channels, ...)``, e.g. the colours of pixels.

    >>> Grouped(labels=[0, 0, 1, -1]).count
    2
    """

    labels: Tensor | Literal["channels"] = "channels"

    def __post_init__(self) -> None:
        """Refuse labels that make no groups."""
        super().__post_init__()
        if isinstance(self.labels, str) and self.labels == CHANNELS:
            return
        labels: object = self.labels
        if isinstance(labels, (list, tuple)):
            labels = torch.tensor(labels)
        if not isinstance(labels, Tensor) or not _complete(labels):
            raise InputError(
                "groups",
                expected="integer labels from 0, none left out, -1 for scores of no group; or "
                "'channels'",
                got=f"labels {_told(labels)}" if isinstance(labels, Tensor) else repr(labels),
                remedy="give each score the number of its group, e.g. [0, 0, 1, -1]",
            )
        object.__setattr__(self, "labels", labels.detach().long())

    @property
    def count(self) -> int:
        """How many groups labels make; 0 for channels, where the maps say so."""
        return 0 if isinstance(self.labels, str) else int(self.labels.max()) + 1

    @property
    def name(self) -> str:
        """What it is called in tables."""
        if isinstance(self.labels, str):
            return to_text(self)
        return f"{self.base.name} in {self.count} groups"

    def stretch(self, scores: Tensor) -> float:
        """How much further than the map its sums can move, in the Euclidean norm.

        The root of the size of the largest group, by Cauchy and Schwarz; ``scores`` are maps of
        the base, ``(batch, *scores)``. It is attained where a whole group moves alike.
        """
        if isinstance(self.labels, str):
            return math.sqrt(scores.shape[1])
        return math.sqrt(int(self.labels[self.labels >= 0].bincount().max()))

    def summed(self, scores: Tensor) -> Tensor:
        """The sums of maps ``(batch, *scores)``."""
        self._fit(scores)
        if isinstance(self.labels, str):
            return scores.sum(1)
        labels = self.labels.flatten().to(scores.device)
        inside = labels >= 0
        sums = scores.new_zeros(len(scores), self.count)
        return sums.index_add(1, labels[inside], scores.flatten(1)[:, inside])

    def spread(self, sums: Tensor, like: Tensor) -> Tensor:
        """The transpose of :meth:`summed`: each score of a group gets what its group has."""
        if isinstance(self.labels, str):
            return sums.unsqueeze(1).expand_as(like)
        labels = self.labels.flatten().to(sums.device)
        every = torch.where(labels >= 0, sums[:, labels.clamp_min(0)], 0.0)
        return every.view_as(like)

    def _fit(self, scores: Tensor) -> None:
        channels = isinstance(self.labels, str)
        if channels and scores.dim() < 3:
            raise InputError(
                "groups",
                expected="maps (channels, ...) to sum channels of",
                got=f"maps of shape {tuple(scores.shape[1:])}",
                remedy="give labels of that shape",
            )
        if not isinstance(self.labels, str) and self.labels.shape != scores.shape[1:]:
            raise InputError(
                "groups",
                expected=f"labels of the shape of one map, {tuple(scores.shape[1:])}",
                got=f"shape {tuple(self.labels.shape)}",
                remedy="give each score the number of its group, -1 for none",
            )

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        return self.summed(self.base.revalue(x, target))

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        inner = self.base.relinearize(x, target)
        value = self.summed(inner.value)
        jacobian = SummedJacobian(inner.jacobian, self, value)
        return Linearization(value, jacobian, target, inner.reservations)


@dataclass(frozen=True, eq=False)
class SummedJacobian(LinearOperator):
    """``S J``, per example: S sums the scores of each group.

    Attributes:
        operator: J.
        grouped: the groups.
        sums: of the shape of what it makes.
    """

    operator: LinearOperator
    grouped: Grouped
    sums: Tensor

    def __post_init__(self) -> None:
        """A product costs what the operator's costs."""
        object.__setattr__(self, "points", self.operator.points)

    @property
    def domain(self) -> Tensor:
        """As the operator's."""
        return self.operator.domain

    @property
    def range(self) -> Tensor:
        """The sums."""
        return self.sums

    def matvec(self, v: Tensor) -> Tensor:
        """``S J v``, per example."""
        return self.grouped.summed(self.operator.matvec(v))

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T S^T u``, per example."""
        return self.operator.rmatvec(self.grouped.spread(u, self.operator.range))

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        return SummedJacobian(self.operator.select(index), self.grouped, self.sums[index])


def _complete(labels: Tensor) -> bool:
    """Whether they are integers, every one from 0 to the largest, and nothing below -1."""
    if labels.is_floating_point() or not labels.numel():
        return False
    found = labels.unique()  # type: ignore[no-untyped-call]  # untyped in torch
    inside = found[found >= 0]
    return bool((found >= -1).all()) and len(inside) > 0 and int(inside[-1]) == len(inside) - 1


def _told(labels: Tensor) -> str:
    if not labels.numel():
        return "of no scores"
    return f"of {labels.dtype} from {labels.min().item():g} to {labels.max().item():g}"
