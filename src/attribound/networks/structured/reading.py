"""What a node of a traced graph does: one function for each operation that is known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Node
from torch.nn.modules.batchnorm import _BatchNorm

from attribound.models.normalisation import Normalise
from attribound.networks.structured import pointwise as pw
from attribound.networks.structured.folding import Folded, scale_and_shift
from attribound.networks.structured.linear import (
    AdaptivePool,
    Affine,
    AveragePool,
    Convolution,
    Dense,
    LinearPiece,
    Mean,
    Reshape,
    Weights,
)
from attribound.networks.structured.network import Sum, UnstructuredError

#: Modules that are read as wholes, as their forward asks for the shape of what it gets.
LEAVES = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, Normalise)
Piece = LinearPiece | pw.Pointwise | Sum
#: Marks the number of examples among the sizes of a shape.
_BATCH = object()


@dataclass(frozen=True, eq=False)
class Reading:
    """What a node does to the nodes it takes; ``piece`` None: it hands on the first as it is.

    Attributes:
        writes: the node it writes over, if it works in place.
    """

    piece: Piece | None
    takes: tuple[Node, ...]
    writes: Node | None = None


class Reader:
    """Reads the nodes of one model's graph."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._sizes: dict[Node, object] = {}
        self._constants: dict[Node, Callable[[], Tensor]] = {}

    def read(self, node: Node) -> Reading | None:
        """What a node does; None for one that does nothing to the input.

        Raises:
            UnstructuredError: it is not known.
        """
        if node.op == "get_attr":
            self._constants[node] = partial(operator.attrgetter(str(node.target)), self._model)
            return None
        if node.op == "call_module":
            return self._module(node)
        sources = node.all_input_nodes
        if sources and all(source in self._constants for source in sources):
            self._constants[node] = self._later(node)
            return None
        if self._size(node):
            return None
        known = _METHODS if node.op == "call_method" else _FUNCTIONS
        handler = known.get(node.target)
        if handler is None:
            raise UnstructuredError(f"the operation {node.target}")
        return handler(self, *node.args, **node.kwargs)

    def weights(self, weight: Node, bias: Node | None) -> Callable[[], Weights]:
        """Weights of a layer, read when they are used."""
        of = self.tensor(weight)
        other = None if bias is None else self.tensor(bias)
        return lambda: Weights(of(), None if other is None else other())

    def tensor(self, node: object) -> Callable[[], Tensor]:
        """A constant tensor, read when it is used."""
        if not isinstance(node, Node) or node not in self._constants:
            raise UnstructuredError("a weight that depends on the input")
        return self._constants[node]

    def number_or_tensor(self, value: object) -> Callable[[], Tensor | float]:
        """A constant of an affine map."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
            return lambda: number
        return self.tensor(value)

    def depends(self, value: object) -> bool:
        """Whether ``value`` is a node that depends on the input."""
        return isinstance(value, Node) and value not in self._constants

    def sizes(self, given: tuple[Any, ...]) -> list[object]:
        """Sizes of a shape: numbers, or the number of examples."""
        (first, *_) = given
        every = list(first) if isinstance(first, (list, tuple)) else list(given)
        return [self._sizes[size] if isinstance(size, Node) else size for size in every]

    def _module(self, node: Node) -> Reading:
        module = self._model.get_submodule(str(node.target))
        (x,) = node.args
        if isinstance(module, Normalise):
            return Reading(Affine(lambda x: _normalising(module, x)), (_node(x),))
        assert isinstance(module, _BatchNorm)
        if module.training or module.running_mean is None or module.running_var is None:
            raise UnstructuredError("a batch norm that mixes examples")
        return Reading(Affine(lambda x: _norming(module, x)), (_node(x),))

    def _later(self, node: Node) -> Callable[[], Tensor]:
        """A tensor made of constants, made anew whenever it is used."""
        known = node.target in ("view", "reshape", "unsqueeze")
        if not known and node.target is not operator.getitem:
            raise UnstructuredError(f"a constant by {node.target}")
        first, *rest = node.args
        source, kwargs = self.tensor(first), dict(node.kwargs)
        if node.op == "call_method":
            return lambda: getattr(source(), str(node.target))(*rest, **kwargs)
        return lambda: source()[rest[0]]  # type: ignore[index]

    def _size(self, node: Node) -> bool:
        """Remember a node that is the shape of another one or the number of examples."""
        if (node.op, node.target) == ("call_method", "size"):
            self._sizes[node] = _BATCH if node.args[1:] == (0,) else None
            return node.args[1:] in ((0,), ())
        if node.target is getattr and node.args[1:] == ("shape",):
            self._sizes[node] = None
            return True
        if node.target is operator.getitem and node.args[0] in self._sizes:
            if node.args[1] != 0:
                raise UnstructuredError("a size that is not the number of examples")
            self._sizes[node] = _BATCH
            return True
        return False


def folded(piece: Piece, node: Node, model: nn.Module) -> Piece | None:
    """``piece`` with the batch norm ``node`` after it; None if it is none, or can't be."""
    if node.op != "call_module" or not isinstance(piece, (Convolution, Dense)):
        return None
    module = model.get_submodule(str(node.target))
    if not isinstance(module, _BatchNorm):
        return None
    # Of three dimensions the norm's channels are the second, a linear layer's the last.
    if isinstance(piece, Dense) and not isinstance(module, nn.BatchNorm1d):
        return None
    return replace(piece, weights=Folded(piece.weights, module))


def _node(value: object) -> Node:
    if not isinstance(value, Node):
        raise UnstructuredError("a constant where the input was expected")
    return value


def _columns(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 2))


def _normalising(module: Normalise, x: Tensor) -> tuple[Tensor, Tensor]:
    if len(module.mean) not in (1, x.shape[1]):
        raise ValueError("other channels")
    return _columns(1 / module.std, x), _columns(-module.mean / module.std, x)


def _norming(module: _BatchNorm, x: Tensor) -> tuple[Tensor, Tensor]:
    scale, shift = scale_and_shift(module)
    return _columns(scale, x), _columns(shift, x)


def _spread(size: Any, rank: int) -> tuple[int, ...]:
    sizes = (size,) * rank if isinstance(size, int) else tuple(size)
    sizes = sizes * rank if len(sizes) == 1 else sizes
    if len(sizes) != rank or not all(type(n) is int for n in sizes):
        raise UnstructuredError("sizes that are not numbers")
    return sizes


def _conv(rank: int) -> Callable[..., Reading]:
    def read(  # noqa: PLR0913, PLR0917 - PyTorch's own signature
        reader: Reader,
        input: Node,
        weight: Node,
        bias: Node | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Reading:
        sizes = (_spread(size, rank) for size in (stride, padding, dilation))
        return Reading(Convolution(reader.weights(weight, bias), *sizes, groups), (_node(input),))

    return read


def _linear(reader: Reader, input: Node, weight: Node, bias: Node | None = None) -> Reading:
    return Reading(Dense(reader.weights(weight, bias)), (_node(input),))


def _softplus(_: Reader, input: Node, beta: float = 1, threshold: float = 20) -> Reading:
    if threshold < 20:  # a visible corner, not ours to smooth
        raise UnstructuredError("a softplus with a corner")
    return Reading(pw.Softplus(float(beta), float(threshold)), (input,))


def _leaky(_: Reader, input: Node, negative_slope: float = 0.01, inplace: bool = False) -> Reading:
    return Reading(pw.LeakyReLU(float(negative_slope)), (input,), input if inplace else None)


def _relu(_: Reader, input: Node, inplace: bool = False) -> Reading:
    return Reading(pw.LeakyReLU(), (input,), input if inplace else None)


def _gelu(_: Reader, input: Node, approximate: str = "none") -> Reading:
    if approximate != "none":
        raise UnstructuredError("an approximate GELU")
    return Reading(pw.GELU(), (input,))


def _silu(_: Reader, input: Node, inplace: bool = False) -> Reading:
    return Reading(pw.SiLU(), (input,), input if inplace else None)


def _simple(function: pw.Pointwise) -> Callable[..., Reading]:
    return lambda _, input: Reading(function, (input,))


def _dropout(
    _: Reader, input: Node, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Reading:
    if training:
        raise UnstructuredError("dropout")
    return Reading(None, (input,))


def _same(_: Reader, input: Node) -> Reading:
    return Reading(None, (input,))


def _copy(_: Reader, into: Node, source: Node) -> Reading:
    """``into.copy_(source)``, as smooth copies round functions that work in place."""
    return Reading(None, (_node(source),), into)


def _pool(rank: int) -> Callable[..., Reading]:
    def read(  # noqa: PLR0913, PLR0917 - PyTorch's own signature
        _: Reader,
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


def _adaptive(_: Reader, input: Node, output_size: Any) -> Reading:
    if output_size in (1, (1, 1), [1, 1]):
        return Reading(Mean((-2, -1), keep=True), (input,))
    given = output_size if isinstance(output_size, (list, tuple)) else (output_size,) * 2

    def size(x: Tensor) -> tuple[int, int]:
        high, wide = (
            n if want is None else want for want, n in zip(given, x.shape[-2:], strict=True)
        )
        return high, wide

    return Reading(AdaptivePool(size), (input,))


def _mean(_: Reader, input: Node, dim: Any = None, keepdim: bool = False, **other: Any) -> Reading:
    if dim is None or other:
        raise UnstructuredError("a mean over everything")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return Reading(Mean(dims, keepdim), (input,))


def _flatten(_: Reader, input: Node, start_dim: int = 0, end_dim: int = -1) -> Reading:
    if start_dim < 1:
        raise UnstructuredError("a flattening of examples")
    return Reading(Reshape(lambda x: tuple(x[:1].flatten(start_dim, end_dim).shape[1:])), (input,))


def _reshape(reader: Reader, input: Node, *shape: Any) -> Reading:
    batch, *sizes = reader.sizes(shape)
    if (batch is not _BATCH and batch != -1) or not all(type(size) is int for size in sizes):
        raise UnstructuredError("a shape that says how many examples there are")
    return Reading(Reshape(lambda _: tuple(sizes)), (input,))  # type: ignore[arg-type]


def _add(sign: float) -> Callable[..., Reading]:
    def read(reader: Reader, a: Any, b: Any, *, alpha: float = 1) -> Reading:
        factor = sign * alpha
        if reader.depends(a) and reader.depends(b):
            return Reading(Sum(factor), (a, b))
        if reader.depends(a):
            shift = reader.number_or_tensor(b)
            return Reading(Affine(lambda _: (1.0, factor * shift())), (a,))
        shift = reader.number_or_tensor(a)
        return Reading(Affine(lambda _: (factor, shift())), (_node(b),))

    return read


def _multiply(reader: Reader, a: Any, b: Any) -> Reading:
    if reader.depends(a) and reader.depends(b):
        raise UnstructuredError("a product of two parts of the network")
    x, constant = (a, b) if reader.depends(a) else (b, a)
    scale = reader.number_or_tensor(constant)
    return Reading(Affine(lambda _: (scale(), 0.0)), (_node(x),))


def _divide(reader: Reader, a: Any, b: Any) -> Reading:
    if not reader.depends(a):
        raise UnstructuredError("a division by the input")
    scale = reader.number_or_tensor(b)
    return Reading(Affine(lambda _: (1 / scale(), 0.0)), (_node(a),))


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
