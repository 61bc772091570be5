"""Convolution and softplus with the same values and cheaper second derivatives.

A Hessian-vector product on a retained graph should cost two convolutions a
layer. PyTorch's takes three (it computes the gradient of a weight that needs
none) and evaluates the softplus chain anew for each product. Inside
:class:`FastDerivatives` convolutions with frozen weights and softplus go through
the functions below, which do neither; everything else is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from attribound.basics.errors import ModelError

Product = Callable[[Tensor], Tensor]


class FastDerivatives(TorchFunctionMode):
    """While active, convolutions and softplus are differentiated by this module."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        rank = _CONVOLUTIONS.get(func)
        if rank is not None:
            return _convolution(func, rank, *args, **kwargs)
        if func is F.softplus:
            return _softplus(*args, **kwargs)
        return func(*args, **kwargs)


_CONVOLUTIONS: dict[Callable[..., Tensor], int] = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}


def spread(sizes: Any, rank: int) -> tuple[int, ...]:
    """Sizes of ``rank`` dimensions, as PyTorch understands one number or a list of one."""
    several = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return several * rank if len(several) == 1 else several


def has_corner(threshold: float) -> bool:
    """Whether a softplus becomes linear where that is seen: its derivative jumps there."""
    return threshold < 20


def _convolution(  # noqa: PLR0913, PLR0917 - PyTorch's own signature
    func: Callable[..., Tensor],
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    trained = weight.requires_grad or (bias is not None and bias.requires_grad)
    batched = input.dim() == rank + 2
    if trained or not batched or not input.requires_grad or isinstance(padding, str):
        return func(input, weight, bias, stride, padding, dilation, groups)
    geometry = [spread(sizes, rank) for sizes in (stride, padding, dilation)]
    out = _apply(_Convolution, input, weight, (*geometry, groups))
    return out if bias is None else out + bias.view(-1, *[1] * rank)


def _apply(function: Any, *args: Any) -> Tensor:
    out: Tensor = function.apply(*args)  # untyped in torch
    return out


class _Convolution(Function):
    """A convolution as a linear map of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, geometry: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.geometry, ctx.shape = geometry, x.shape
        stride, padding, dilation, groups = geometry
        return torch.convolution(
            x, weight, None, stride, padding, dilation, False, [0] * len(stride), groups
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        return _apply(_Adjoint, gradient, weight, ctx.geometry, ctx.shape), None, None


class _Adjoint(Function):
    """The adjoint of a convolution; its own adjoint is the convolution."""

    @staticmethod
    def forward(
        ctx: Any, gradient: Tensor, weight: Tensor, geometry: tuple[Any, ...], shape: torch.Size
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.geometry = geometry
        stride, padding, dilation, groups = geometry
        adjoint: Tensor = torch.ops.aten.convolution_backward(
            gradient,
            gradient.new_empty(1).expand(shape),  # only its shape is read
            weight,
            None,
            stride,
            padding,
            dilation,
            False,
            [0] * len(stride),
            groups,
            [True, False, False],
        )[0]
        return adjoint

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        (weight,) = ctx.saved_tensors
        return _apply(_Convolution, v, weight, ctx.geometry), None, None, None


def _softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    if not input.requires_grad or has_corner(threshold):  # not ours to smooth
        return F.softplus(input, beta, threshold)
    return _apply(_Softplus, input, beta, threshold)


class _Softplus(Function):
    """Softplus; its slope is evaluated once."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, beta: float, threshold: float) -> Tensor:
        ctx.save_for_backward(z, torch.sigmoid(beta * z))
        ctx.beta = beta
        return F.softplus(z, beta, threshold)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        z, slope = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gradient * slope, None, None
        return _apply(_SoftplusBackward, gradient, z, slope, ctx.beta), None, None


class _SoftplusBackward(Function):
    """``gradient * slope(z)``; its two derivatives are stored, so that a product is two factors."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, z: Tensor, slope: Tensor, beta: float) -> Tensor:
        curvature = torch.addcmul(slope, slope, slope, value=-1).mul_(gradient).mul_(beta)
        ctx.save_for_backward(gradient, z, slope, curvature)
        ctx.beta = beta
        return gradient * slope

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        gradient, z, slope, curvature = ctx.saved_tensors
        if torch.is_grad_enabled():  # third derivatives wanted: as functions of z and gradient
            slope = torch.sigmoid(ctx.beta * z)
            curvature = ctx.beta * gradient * slope * (1 - slope)
        return v * slope, v * curvature, None, None


def second_derivative(gradient: Tensor, point: Tensor) -> Product:
    """Hessian-vector products from a gradient that kept its graph; zero where it is constant."""

    def product(v: Tensor) -> Tensor:
        if not gradient.requires_grad:
            return torch.zeros_like(v)
        if len(v) > len(point):
            return torch.cat([product(block) for block in torch.split(v, len(point))])
        return differentiate(gradient, point, v, retain_graph=True, constant=True)

    return product


def differentiate(
    out: Tensor,
    point: Tensor,
    v: Tensor | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    constant: bool = False,
) -> Tensor:
    """``autograd.grad`` whose failures say what to do; zeros for no dependence if ``constant``."""
    try:
        (result,) = torch.autograd.grad(
            out, point, v, create_graph=create_graph, retain_graph=retain_graph, allow_unused=True
        )
    except RuntimeError as error:
        if out.requires_grad:
            raise ModelError(
                "model",
                expected="operations that can be differentiated twice",
                got=str(error).splitlines()[0],
                remedy="replace the operation named, and switch activation checkpointing off",
            ) from error
        result = None
    if result is None and not constant:
        raise ModelError(
            "model",
            expected="outputs that depend on x through autograd",
            got="a detached output",
            remedy="remove .detach(), .data, no_grad and numpy from the forward",
        )
    return torch.zeros_like(point) if result is None else result
