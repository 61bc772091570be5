"""Trace a module into linear pieces and pointwise functions, or say that it can't be."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn
from torch.fx import Graph, Node, Tracer
from torch.fx.proxy import Proxy

from attribound.networks.plain import replaced_in_torch, watched
from attribound.networks.structured.constants import Constants
from attribound.networks.structured.linear import ReshapePiece
from attribound.networks.structured.modules import LEAVES, folded, read_module
from attribound.networks.structured.network import (
    StructuredNetwork,
    Sum,
    TracedStep,
    UnstructuredError,
)
from attribound.networks.structured.operations import Piece, read
from attribound.networks.structured.unchanged import Unchanged, outside, readable


def trace(model: object) -> StructuredNetwork | None:
    """The structure of a module; None if there is anything in it that is not known.

    Known are convolutions, linear layers, batch norms in eval mode, average pooling,
    sums, reshapes, constants, dropout in eval mode and smooth or ReLU-like functions.
    Hooks, replaced methods, parametrised weights, attributes that may change unseen and
    code that reads variables of its surroundings are not. Whether what was
    traced is the network, only a comparison shows.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    if not isinstance(model, nn.Module) or watched() or any(map(replaced_in_torch, modules)):
        return None
    called = _Called(model)
    try:
        if not all(map(readable, modules)) or outside(modules) is None:
            return None
        before = Unchanged(modules)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = _Tracer().trace(called)
        if not before():
            return None  # running it changes it: what was seen is no longer so
        steps = _steps(called, graph)
    except Exception:  # a forward may do anything with what is no tensor
        return None
    return StructuredNetwork(steps, before, [*model.parameters(), *model.buffers()])


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


def _steps(model: nn.Module, graph: Graph) -> list[TracedStep]:
    """The graph as steps, batch norms folded."""
    constants = Constants(model)
    place: dict[Node, int] = {}
    found: list[tuple[Piece, tuple[int, ...]]] = []
    own: set[Node] = set()  # with memory of their own
    for node in graph.nodes:
        if node.op == "placeholder":
            place[node] = -1
            continue
        if node.op == "output":
            if not found or place[node.args[0]] != len(found) - 1:
                raise UnstructuredError("an output that is not the last step")
            break
        if constants.knows(node):
            continue
        module = node.op == "call_module"
        reading = read_module(model, node) if module else read(constants, node)
        _refuse_written(reading.writes, node, own)
        sources = tuple(place[source] for source in reading.takes)
        if reading.piece is None:
            place[node] = sources[0]
            own |= {node} if node.target == "clone" else set()
            continue
        own |= set() if isinstance(reading.piece, ReshapePiece) else {node}
        before = sources[0]
        both = None if before < 0 else folded(found[before][0], node, model)
        if both is not None and len(reading.takes[0].users) == 1:
            found[before] = both, found[before][1]
            place[node] = before
        else:
            found.append((reading.piece, sources))
            place[node] = len(found) - 1
    return _linked(found)


def _refuse_written(written: Node | None, by: Node, own: set[Node]) -> None:
    """Refuse what is written over if somebody may see it later, by itself or by a view of it."""
    if written is None:
        return
    order = {node: i for i, node in enumerate(by.graph.nodes)}
    if written not in own or any(order[user] > order[by] for user in written.users):
        raise UnstructuredError("written over")


def _linked(found: list[tuple[Piece, tuple[int, ...]]]) -> list[TracedStep]:
    """Steps that know who else takes their inputs."""
    takers: dict[int, list[int]] = {}
    for i, (_, inputs) in enumerate(found):
        for source in inputs:
            takers.setdefault(source, []).append(i)
    takers.setdefault(len(found) - 1, []).append(len(found))  # the logits are kept
    return [
        TracedStep(
            piece,
            inputs,
            tuple({source for source in inputs if max(takers[source]) == i}),
            not isinstance(piece, Sum) and len(takers[inputs[0]]) == 1,
        )
        for i, (piece, inputs) in enumerate(found)
    ]
