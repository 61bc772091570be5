"""Trace a module into linear pieces and pointwise functions, or say that it can't be."""

from __future__ import annotations

import inspect
import types
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, Node, Tracer
from torch.fx.proxy import Proxy

from attribound.networks.plain import global_hooks
from attribound.networks.structured.network import Step, StructuredNetwork, Sum, UnstructuredError
from attribound.networks.structured.reading import LEAVES, Piece, Reader, folded
from attribound.networks.structured.unchanged import Unchanged, readable


def trace(model: object) -> StructuredNetwork | None:
    """The structure of a module; None if there is anything in it that is not known.

    Known are convolutions, linear layers, batch norms in eval mode, average pooling,
    sums, reshapes, constants, dropout in eval mode and smooth or ReLU-like functions.
    Hooks, replaced methods, parametrised weights, attributes that may change unseen and
    a ``forward`` that reads variables of its surroundings are not. Whether what was
    traced is the network, only a comparison shows.
    """
    if not isinstance(model, nn.Module) or global_hooks():
        return None
    modules = list(model.modules())
    if not all(map(_traceable, modules)):
        return None
    before = Unchanged(modules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            called = _Called(model)
            graph = _Tracer().trace(called)
        if not before():
            return None  # running it changes it: what was seen is no longer so
        steps = _steps(called, graph)
    except Exception:  # noqa: BLE001 - a forward may do anything with what is no tensor
        return None
    tensors = [*model.parameters(), *model.buffers()]
    return StructuredNetwork(steps, before, tensors)


def _traceable(module: nn.Module) -> bool:
    """Whether a module is known, or has a forward that can be followed."""
    if not readable(module):
        return False
    kind = type(module)
    if kind in LEAVES:
        return True
    own = [each for each in kind.__mro__ if each.__module__.split(".")[0] != "torch"]
    return all(not _reads_surroundings(each) for each in own if each is not object)


def _reads_surroundings(kind: type) -> bool:
    """Whether a method uses variables from outside that are neither functions nor classes."""
    fixed = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    for name, method in vars(kind).items():
        if name.startswith("__") or not isinstance(method, types.FunctionType):
            continue
        found = inspect.getclosurevars(method)
        for outside in (found.nonlocals, found.globals):
            if not all(isinstance(v, fixed) for k, v in outside.items() if k != "__class__"):
                return True
    return False


class _Called(nn.Module):
    """Calls a model as a user would, whatever arguments its forward is written with."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The model's output."""
        return self.model(x)


class _Tracer(Tracer):
    """Follows every forward down to the modules that are known."""

    proxy_buffer_attributes = True

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        return type(m) in LEAVES

    def create_arg(self, a: Any) -> Any:
        """No tensor that came up on the way: it would be put into the user's module."""
        if isinstance(a, Tensor) and not isinstance(a, nn.Parameter):
            raise UnstructuredError("a constant tensor")
        return super().create_arg(a)

    def to_bool(self, obj: Proxy) -> bool:
        raise UnstructuredError(f"a branch on {obj}")


def _steps(model: nn.Module, graph: Graph) -> list[Step]:
    """The graph as steps, batch norms folded."""
    reader = Reader(model)
    place: dict[Node, int] = {}
    found: list[tuple[Piece, tuple[int, ...]]] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            if place:
                raise UnstructuredError("several inputs")
            place[node] = -1
            continue
        if node.op == "output":
            if not found or place[node.args[0]] != len(found) - 1:
                raise UnstructuredError("an output that is not the last step")
            break
        reading = reader.read(node)
        if reading is None:
            continue
        if reading.writes is not None:
            _refuse_written(reading.writes, node)
        sources = tuple(place[source] for source in reading.takes)
        if reading.piece is None:
            place[node] = sources[0]
            continue
        before = sources[0]
        both = None if before < 0 else folded(found[before][0], node, model)
        if both is not None and len(reading.takes[0].users) == 1:
            found[before] = both, found[before][1]
            place[node] = before
        else:
            found.append((reading.piece, sources))
            place[node] = len(found) - 1
    return _linked(found)


def _refuse_written(written: Node, by: Node) -> None:
    """Refuse what is written over unless only those that wrote it have seen it.

    A view would carry the change to what it is a view of.
    """
    order = list(by.graph.nodes)
    later = [user for user in written.users if order.index(user) > order.index(by)]
    views = {"view", "reshape", "flatten", "contiguous", torch.flatten, torch.reshape}
    if later or written.op == "placeholder" or written.target in views:
        raise UnstructuredError("written over")


def _linked(found: list[tuple[Piece, tuple[int, ...]]]) -> list[Step]:
    """Steps that know who else takes their inputs."""
    takers: dict[int, list[int]] = {}
    for i, (_, inputs) in enumerate(found):
        for source in inputs:
            takers.setdefault(source, []).append(i)
    takers.setdefault(len(found) - 1, []).append(len(found))  # the logits are kept
    return [
        Step(
            piece,
            inputs,
            tuple({source for source in inputs if max(takers[source]) == i}),
            not isinstance(piece, Sum) and len(takers[inputs[0]]) == 1,
        )
        for i, (piece, inputs) in enumerate(found)
    ]
