"""Operations that are known: what each makes of its arguments, one function for each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from attribound.networks.fast_derivatives import has_corner, spread
from attribound.networks.structured import pointwise as pw
from attribound.networks.structured.constants import BATCH, Constants
from attribound.networks.structured.linear import (
    AdaptivePool,
    AveragePool,
    ConvolutionPiece,
    DensePiece,
    LinearPiece,
    MeanPiece,
    ReshapePiece,
    Scaling,
)
from attribound.networks.structured.network import Sum, UnstructuredError

Piece = LinearPiece | pw.Pointwise | Sum


@dataclass(frozen=True, eq=False)
class Reading:
    """What a node does to the nodes it takes; ``piece`` None: it hands on the first as it is.

    Attributes:
        writes: the node it writes over, if it works in place.
    """

    piece: Piece | None
    takes: tuple[Node, ...]
    writes: Node | None = None


def read(constants: Constants, node: Node) -> Reading:
    """What a call of a function or a method does.

    Raises:
        UnstructuredError: it is not known.
    """
    known = _METHODS if node.op == "call_method" else _FUNCTIONS
    handler = known.get(node.target)
    if handler is None:
        raise UnstructuredError(f"the operation {node.target}")
    return handler(constants, *node.args, **node.kwargs)


def node_of(value: object) -> Node:
    """``value``, which must be a node."""
    if not isinstance(value, Node):
        raise UnstructuredError("a constant where the input was expected")
    return value


def _spread(size: Any, rank: int) -> tuple[int, ...]:
    sizes = spread(size, rank)
    if len(sizes) != rank or not all(type(n) is int for n in sizes):
        raise UnstructuredError("sizes that are not numbers")
    return sizes


def _conv(rank: int) -> Callable[..., Reading]:
    def read(  # noqa: PLR0913, PLR0917 - PyTorch's own signature
        constants: Constants,
        input: Node,
        weight: Node,
        bias: Node | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Reading:
        step, pad, gap = (_spread(size, rank) for size in (stride, padding, dilation))
        piece = ConvolutionPiece(constants.weights(weight, bias), step, pad, gap, groups)
        return Reading(piece, (node_of(input),))

    return read


def _linear(constants: Constants, input: Node, weight: Node, bias: Node | None = None) -> Reading:
    return Reading(DensePiece(constants.weights(weight, bias)), (node_of(input),))


def _softplus(_: Constants, input: Node, beta: float = 1, threshold: float = 20) -> Reading:
    if has_corner(threshold):  # not ours to smooth
        raise UnstructuredError("a softplus with a corner")
    return Reading(pw.Softplus(float(beta), float(threshold)), (input,))


def _leaky(
    _: Constants, input: Node, negative_slope: float = 0.01, inplace: bool = False
) -> Reading:
    return Reading(pw.LeakyReLU(float(negative_slope)), (input,), input if inplace else None)


def _relu(_: Constants, input: Node, inplace: bool = False) -> Reading:
    return Reading(pw.LeakyReLU(), (input,), input if inplace else None)


def _gelu(_: Constants, input: Node, approximate: str = "none") -> Reading:
    if approximate != "none":
        raise UnstructuredError("an approximate GELU")
    return Reading(pw.GELU(), (input,))


def _silu(_: Constants, input: Node, inplace: bool = False) -> Reading:
    return Reading(pw.SiLU(), (input,), input if inplace else None)


def _simple(function: pw.Pointwise) -> Callable[..., Reading]:
    def read_it(_: Constants, input: Node) -> Reading:
        return Reading(function, (input,))

    return read_it


def _dropout(
    _: Constants, input: Node, p: float = 0.5, training: bool = True, **_in_place: bool
) -> Reading:
    if training and p > 0:
        raise UnstructuredError("dropout")
    return Reading(None, (input,))


def _same(_: Constants, input: Node) -> Reading:
    return Reading(None, (input,))


def _copy(_: Constants, into: Node, source: Node) -> Reading:
    """``into.copy_(source)``, as smooth copies round functions that work in place."""
    return Reading(None, (node_of(source),), into)


def _pool(rank: int) -> Callable[..., Reading]:
    def read(  # noqa: PLR0913, PLR0917 - PyTorch's own signature
        _: Constants,
        input: Node,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Reading:
        kernel, pad = _spread(kernel_size, rank), _spread(padding, rank)
        step = _spread(stride, rank) if stride not in (None, (), []) else kernel
        if rank == 1:
            kernel, step, pad = (1, *kernel), (1, *step), (0, *pad)
        settings = (kernel, step, pad, ceil_mode, count_include_pad, divisor_override)
        return Reading(AveragePool(settings, lines=rank == 1), (input,))

    return read


def _adaptive(_: Constants, input: Node, output_size: Any) -> Reading:
    if output_size in (1, (1, 1), [1, 1]):
        return Reading(MeanPiece((-2, -1), keep=True), (input,))
    given = output_size if isinstance(output_size, (list, tuple)) else (output_size,) * 2

    def size(x: Tensor) -> tuple[int, int]:
        high, wide = (
            n if want is None else want for want, n in zip(given, x.shape[-2:], strict=True)
        )
        return high, wide

    return Reading(AdaptivePool(size), (input,))


def _mean(
    _: Constants, input: Node, dim: Any = None, keepdim: bool = False, **other: Any
) -> Reading:
    if dim is None or other:
        raise UnstructuredError("a mean over everything")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return Reading(MeanPiece(dims, keepdim), (input,))


def _flatten(_: Constants, input: Node, start_dim: int = 0, end_dim: int = -1) -> Reading:
    if start_dim < 1:
        raise UnstructuredError("a flattening of examples")
    return Reading(
        ReshapePiece(lambda x: tuple(x[:1].flatten(start_dim, end_dim).shape[1:])), (input,)
    )


def _reshape(constants: Constants, input: Node, *shape: Any) -> Reading:
    batch, *sizes = constants.sizes(shape)
    if (batch is not BATCH and batch != -1) or not all(type(size) is int for size in sizes):
        raise UnstructuredError("a shape that says how many examples there are")
    return Reading(ReshapePiece(lambda _: tuple(sizes)), (input,))  # type: ignore[arg-type]


def _add(sign: float) -> Callable[..., Reading]:
    def read(constants: Constants, a: Any, b: Any, *, alpha: float = 1) -> Reading:
        factor = sign * alpha
        if constants.depends(a) and constants.depends(b):
            return Reading(Sum(factor), (a, b))
        if constants.depends(a):
            shift = constants.number_or_tensor(b)
            return Reading(Scaling(lambda _: (1.0, factor * shift())), (a,))
        shift = constants.number_or_tensor(a)
        return Reading(Scaling(lambda _: (factor, shift())), (node_of(b),))

    return read


def _multiply(constants: Constants, a: Any, b: Any) -> Reading:
    if constants.depends(a) and constants.depends(b):
        raise UnstructuredError("a product of two parts of the network")
    x, constant = (a, b) if constants.depends(a) else (b, a)
    scale = constants.number_or_tensor(constant)
    return Reading(Scaling(lambda _: (scale(), 0.0)), (node_of(x),))


def _divide(constants: Constants, a: Any, b: Any) -> Reading:
    if not constants.depends(a):
        raise UnstructuredError("a division by the input")
    scale = constants.number_or_tensor(b)
    return Reading(Scaling(lambda _: (1 / scale(), 0.0)), (node_of(a),))


_FUNCTIONS: dict[Any, Callable[..., Reading]] = {
    F.conv1d: _conv(1),
    F.conv2d: _conv(2),
    F.conv3d: _conv(3),
    F.linear: _linear,
    F.softplus: _softplus,
    **dict.fromkeys([F.relu, torch.relu], _relu),
    F.leaky_relu: _leaky,
    F.gelu: _gelu,
    F.silu: _silu,
    **dict.fromkeys([torch.tanh, F.tanh], _simple(pw.Tanh())),
    **dict.fromkeys([torch.sigmoid, F.sigmoid], _simple(pw.Sigmoid())),
    **dict.fromkeys([F.dropout, F.dropout1d, F.dropout2d, F.dropout3d], _dropout),
    F.avg_pool1d: _pool(1),
    F.avg_pool2d: _pool(2),
    F.adaptive_avg_pool2d: _adaptive,
    torch.mean: _mean,
    torch.flatten: _flatten,
    torch.reshape: _reshape,
    **dict.fromkeys([operator.add, torch.add], _add(1.0)),
    **dict.fromkeys([operator.sub, torch.sub], _add(-1.0)),
    **dict.fromkeys([operator.mul, torch.mul], _multiply),
    **dict.fromkeys([operator.truediv, torch.div], _divide),
}
_METHODS: dict[Any, Callable[..., Reading]] = {
    "relu": _relu,
    "tanh": _simple(pw.Tanh()),
    "sigmoid": _simple(pw.Sigmoid()),
    "mean": _mean,
    "flatten": _flatten,
    "view": _reshape,
    "reshape": _reshape,
    "contiguous": _same,
    "clone": _same,
    "copy_": _copy,
    "add": _add(1.0),
    "sub": _add(-1.0),
    "mul": _multiply,
    "div": _divide,
}
