"""Affine maps of a network: products with W, its transpose and the absolute values of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attribound.basics.rounding import gamma


class Affine(ABC):
    """``x -> W x + offset`` on ``(batch, *shape)``.

    Attributes:
        terms: roundings on one path, at most, through a product with W or its transpose.
        offset: broadcasts to the output.
        offset_size: at least the size of every number the offset was computed from.
    """

    terms: int
    offset: Tensor | float
    offset_size: Tensor | float

    @abstractmethod
    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""

    @abstractmethod
    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:
        """``W^T u`` for inputs of one example of ``shape``."""

    @abstractmethod
    def absolute(self) -> Affine:
        """The same map with ``|W|``, without an offset."""


@dataclass(frozen=True, eq=False)
class Dense(Affine):
    """A matrix on the last dimension."""

    weight: Tensor
    offset: Tensor | float = 0.0

    def __post_init__(self) -> None:
        """A product is a sum over one side of the matrix."""
        object.__setattr__(self, "terms", max(self.weight.shape) + 2)
        object.__setattr__(self, "offset_size", abs(self.offset))

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        return x @ self.weight.T

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:  # noqa: ARG002
        """``W^T u``."""
        return u @ self.weight

    def absolute(self) -> Affine:
        """With ``|W|``."""
        return Dense(self.weight.abs())


@dataclass(frozen=True)
class Geometry:
    """Of a convolution: ``pad`` is (left, right, top, bottom)."""

    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Convolution(Affine):
    """A 2-D convolution with zero padding."""

    weight: Tensor
    geometry: Geometry
    offset: Tensor | float = 0.0

    def __post_init__(self) -> None:
        """A product is a sum over a window and the channels of a group."""
        out, inside, *window = self.weight.shape
        terms = max(inside, out // self.geometry.groups) * window[0] * window[1] + 2
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "offset_size", abs(self.offset))

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        g = self.geometry
        return F.conv2d(
            F.pad(x, g.pad), self.weight, None, g.stride, dilation=g.dilation, groups=g.groups
        )

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:
        """``W^T u``."""
        g = self.geometry
        left, right, top, bottom = g.pad
        channels, height, width = shape
        padded = (len(u), channels, height + top + bottom, width + left + right)
        whole: Tensor = torch.ops.aten.convolution_backward(
            u.contiguous(),
            u.new_empty(1).expand(padded),  # only its shape is read
            self.weight,
            None,
            g.stride,
            (0, 0),
            g.dilation,
            False,
            (0, 0),
            g.groups,
            [True, False, False],
        )[0]
        return whole[:, :, top : top + height, left : left + width]

    def absolute(self) -> Affine:
        """With ``|W|``."""
        return Convolution(self.weight.abs(), self.geometry)


@dataclass(frozen=True)
class Pooling:
    """The settings of ``avg_pool2d``."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None


@dataclass(frozen=True, eq=False)
class Average(Affine):
    """2-D average pooling."""

    pooling: Pooling
    offset: float = 0.0
    offset_size: float = 0.0

    def __post_init__(self) -> None:
        """A product is a sum over a window and a division."""
        object.__setattr__(self, "terms", self.pooling.kernel[0] * self.pooling.kernel[1] + 2)

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        p = self.pooling
        return F.avg_pool2d(
            x, p.kernel, p.stride, p.padding, p.ceil_mode, p.count_include_pad, p.divisor
        )

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:
        """``W^T u``."""
        p = self.pooling
        result: Tensor = torch.ops.aten.avg_pool2d_backward(
            u.contiguous(),
            u.new_empty(1).expand(len(u), *shape),  # only its shape is read
            p.kernel,
            p.stride,
            p.padding,
            p.ceil_mode,
            p.count_include_pad,
            p.divisor,
        )
        return result

    def absolute(self) -> Affine:
        """A negative divisor is the only sign."""
        divisor = self.pooling.divisor
        return self if divisor is None else Average(replace(self.pooling, divisor=abs(divisor)))


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """A factor per channel: batch norm in eval mode, of which both were computed in float64."""

    factor: Tensor  # broadcasts to the input
    offset: Tensor | float = 0.0
    offset_size: Tensor | float = 0.0
    terms: int = 12  # of the factor, the offset and the product

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        return x * self.factor

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:  # noqa: ARG002
        """``W^T u``."""
        return u * self.factor

    def absolute(self) -> Affine:
        """With ``|W|``."""
        return Scale(self.factor.abs())


@dataclass(frozen=True, eq=False)
class Reshape(Affine):
    """Another shape of the same numbers."""

    shape: tuple[int, ...]
    offset: float = 0.0
    offset_size: float = 0.0
    terms: int = 0

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        return x.reshape(len(x), *self.shape)

    def adjoint(self, u: Tensor, shape: Sequence[int]) -> Tensor:
        """``W^T u``."""
        return u.reshape(len(u), *shape)

    def absolute(self) -> Affine:
        """The same."""
        return self


@dataclass(frozen=True, eq=False)
class Stage:
    """The affine maps between two activations, one after the other, on flat ``(batch, n)``.

    Attributes:
        maps: may be none: the identity.
        shapes: of one example before each map, and after the last.
    """

    maps: tuple[Affine, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers in each of the shapes."""
        return tuple(int(torch.Size(shape).numel()) for shape in self.shapes)

    @property
    def margin(self) -> float:
        """Relative error of a product, a factor before it included, against absolute values."""
        return gamma(sum(part.terms for part in self.maps) + 2)

    def value(self, x: Tensor) -> Tensor:
        """``W x + offset``."""
        x = x.reshape(-1, *self.shapes[0])
        for part in self.maps:
            x = part.linear(x) + part.offset
        return x.flatten(1)

    def magnitude(self, x: Tensor) -> Tensor:
        """``|W| x + |offset|``: what the rounding errors of :meth:`value` are relative to."""
        x = x.reshape(-1, *self.shapes[0])
        for part in self.maps:
            x = part.absolute().linear(x) + part.offset_size
        return x.flatten(1)

    def linear(self, x: Tensor) -> Tensor:
        """``W x``."""
        x = x.reshape(-1, *self.shapes[0])
        for part in self.maps:
            x = part.linear(x)
        return x.flatten(1)

    def adjoint(self, u: Tensor) -> Tensor:
        """``W^T u``."""
        u = u.reshape(-1, *self.shapes[-1])
        for part, shape in zip(reversed(self.maps), reversed(self.shapes[:-1]), strict=True):
            u = part.adjoint(u, shape)
        return u.flatten(1)

    def absolute(self) -> Stage:
        """The product of the ``|W|`` of the maps, no offsets: at least the |W| of the product."""
        return Stage(tuple(part.absolute() for part in self.maps), self.shapes)
