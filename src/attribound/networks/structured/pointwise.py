"""Functions that act on each number by itself: value, slope and curvature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attribound.networks.structured.layout import rowwise
from attribound.networks.structured.softplus import softplus_and_slope

#: From the gradient and the gradient times the slope: the curvature's factor.
_Bend = Callable[[Tensor, Tensor], Tensor]


class PointwiseAt:
    """A function phi at one point z: multiplies tangents and gradients by its slope there.

    A gradient g that came through it bends: its derivative along a tangent t is
    g phi''(z) t. Where phi''/phi' is finite this is a factor times the tangent phi'(z) t
    that left the function, which is at hand; else one times the tangent that entered it.

    Args:
        slope: phi'(z).
        bend: the factor from g and g phi'(z), up to ``scale``; None for no curvature.
        leaving: the factor belongs to the tangent that leaves.
    """

    def __init__(
        self, slope: Tensor, bend: _Bend | None, *, scale: float = 1.0, leaving: bool = True
    ) -> None:
        self.slope = slope
        self.factor: Tensor | None = None
        self._bend, self._scale, self._leaving = bend, scale, leaving

    @property
    def curved(self) -> bool:
        """Whether it bends gradients."""
        return self._bend is not None or self.factor is not None

    @property
    def held(self) -> int:
        """Bytes kept for products."""
        return self.slope.nbytes + (0 if self.factor is None else self.factor.nbytes)

    def gradient(self, g: Tensor, *, owned: bool, keep: bool) -> Tensor:
        """The gradient before the function; ``keep`` what its derivative needs."""
        if not keep or self._bend is None:
            return g.mul_(self.slope) if owned else g * self.slope
        before = g * self.slope
        self.factor = self._bend(g if owned else g.clone(), before)
        self._bend = None  # and what it holds
        return before

    def push(self, tangent: Tensor, *, owned: bool) -> tuple[Tensor, Tensor | None]:
        """The tangent after the function, and the one that :meth:`pull` will want."""
        entering = self.factor is not None and not self._leaving
        here = rowwise(tangent, self.slope)
        after = here.mul_(self.slope) if owned and not entering else here * self.slope
        after = _rows(after, tangent)
        if self.factor is None:
            return after, None
        return after, after if self._leaving else tangent

    def pull(self, g: Tensor | None, tangent: Tensor | None, *, owned: bool) -> Tensor | None:
        """The derivative of the gradient before the function, of that after it; None is zero."""
        if g is not None:
            here = rowwise(g, self.slope)
            before = here.mul_(self.slope) if owned else here * self.slope
            g = _rows(before, g)
        if self.factor is None or tangent is None:
            return g
        bent = rowwise(tangent, self.factor)
        if g is None:
            return _rows((bent * self.factor).mul_(self._scale), tangent)
        rowwise(g, self.factor).addcmul_(bent, self.factor, value=self._scale)
        return g


def _rows(blocks: Tensor, like: Tensor) -> Tensor:
    """Rows again, of what :func:`rowwise` may have made blocks of."""
    return blocks if blocks.dim() == like.dim() else blocks.flatten(0, 1)


class Pointwise(ABC):
    """A function of each number; a frozen value."""

    @abstractmethod
    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:
        """Its value at ``z``, and how it acts on what is near; ``z`` may be written over."""


@dataclass(frozen=True)
class Softplus(Pointwise):
    """(1/beta) log(1 + exp(beta z)); the slope is s = sigmoid(beta z), s'/s = beta (1 - s)."""

    beta: float
    threshold: float

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:
        value, slope = softplus_and_slope(z, self.beta, self.threshold, owned=owned)
        return value, PointwiseAt(slope, lambda g, before: g.sub_(before), scale=self.beta)


@dataclass(frozen=True)
class Tanh(Pointwise):
    """The slope is 1 - a^2 of the value a; its own over it, -2 a."""

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:  # noqa: ARG002
        value = torch.tanh(z)
        slope = torch.addcmul(
            torch.ones((), dtype=z.dtype, device=z.device), value, value, value=-1
        )
        return value, PointwiseAt(slope, lambda g, _: g.mul_(value), scale=-2.0)


@dataclass(frozen=True)
class Sigmoid(Pointwise):
    """The slope is a (1 - a) of the value a; its own over it, 1 - 2 a."""

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:  # noqa: ARG002
        value = torch.sigmoid(z)
        slope = torch.addcmul(value, value, value, value=-1)
        return value, PointwiseAt(slope, lambda g, _: g.mul_(1 - 2 * value))


@dataclass(frozen=True)
class SiLU(Pointwise):
    """z s with s = sigmoid(z)."""

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:  # noqa: ARG002
        s = torch.sigmoid(z)
        steep = s * (1 - s)
        bend = steep * (2 + z * (1 - 2 * s))
        return F.silu(z), PointwiseAt(
            torch.addcmul(s, z, steep), lambda g, _: g.mul_(bend), leaving=False
        )


@dataclass(frozen=True)
class GELU(Pointwise):
    """z Phi(z) of the normal distribution, exact."""

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:  # noqa: ARG002
        below = torch.special.ndtr(z)
        density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        bend = density * (2 - z * z)
        return F.gelu(z), PointwiseAt(
            torch.addcmul(below, z, density), lambda g, _: g.mul_(bend), leaving=False
        )


@dataclass(frozen=True)
class LeakyReLU(Pointwise):
    """max(z, 0), or ``negative`` times z below zero; no curvature, as autograd has it."""

    negative: float = 0.0

    def at(self, z: Tensor, *, owned: bool) -> tuple[Tensor, PointwiseAt]:
        if self.negative:
            one = torch.ones((), dtype=z.dtype, device=z.device)
            slope = torch.where(z > 0, one, self.negative)
        else:  # one pass of memory where a choice between two numbers takes several
            slope = torch.gt(z, 0, out=torch.empty_like(z))
        return z.mul_(slope) if owned else z * slope, PointwiseAt(slope, None)
