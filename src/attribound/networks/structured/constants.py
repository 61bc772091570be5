"""What a traced graph has beside the input: weights, numbers and the number of examples."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.fx import Node

from attribound.networks.structured.linear import LayerWeights
from attribound.networks.structured.network import UnstructuredError

#: Stands for the number of examples among the sizes of a shape.
BATCH = object()


class Constants:
    """The nodes of a graph that do not depend on the numbers of the input.

    Tensors are read from the model whenever they are used, never kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._sizes: dict[Node, object] = {}
        self._tensors: dict[Node, Callable[[], Tensor]] = {}

    def knows(self, node: Node) -> bool:
        """Whether ``node`` is one of these; it is remembered then."""
        if node.op == "get_attr":
            self._tensors[node] = partial(operator.attrgetter(str(node.target)), self._model)
            return True
        sources = node.all_input_nodes
        if sources and all(source in self._tensors for source in sources):
            self._tensors[node] = self._later(node)
            return True
        return self._is_size(node)

    def weights(self, weight: object, bias: object) -> Callable[[], LayerWeights]:
        """Weights of a layer, read when they are used."""
        of = self.tensor(weight)
        other = None if bias is None else self.tensor(bias)
        return lambda: LayerWeights(of(), None if other is None else other())

    def tensor(self, node: object) -> Callable[[], Tensor]:
        """A constant tensor, read when it is used."""
        if not isinstance(node, Node) or node not in self._tensors:
            raise UnstructuredError("a weight that depends on the input")
        return self._tensors[node]

    def number_or_tensor(self, value: object) -> Callable[[], Tensor | float]:
        """A constant of an affine map."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
            return lambda: number
        return self.tensor(value)

    def depends(self, value: object) -> bool:
        """Whether ``value`` is a node that depends on the input."""
        return isinstance(value, Node) and value not in self._tensors and value not in self._sizes

    def sizes(self, given: tuple[Any, ...]) -> list[object]:
        """Sizes of a shape: numbers, or :data:`BATCH`."""
        first = given[0]
        every = list(first) if isinstance(first, (list, tuple)) else list(given)
        return [self._sizes.get(size) if isinstance(size, Node) else size for size in every]

    def _later(self, node: Node) -> Callable[[], Tensor]:
        """A tensor made of constants, made anew whenever it is used."""
        first, *rest = node.args
        source, kwargs = self.tensor(first), dict(node.kwargs)
        if node.target is operator.getitem:
            return lambda: source()[rest[0]]  # type: ignore[index]
        if node.op != "call_method" or node.target not in ("view", "reshape", "unsqueeze"):
            raise UnstructuredError(f"a constant by {node.target}")
        return lambda: getattr(source(), str(node.target))(*rest, **kwargs)

    def _is_size(self, node: Node) -> bool:
        """Whether a node is the shape of another one, or the number of examples."""
        shape = node.target is getattr and node.args[1:] == ("shape",)
        method = (node.op, node.target) == ("call_method", "size")
        first = node.target is operator.getitem and node.args[0] in self._sizes
        if shape or (method and len(node.args) == 1):
            self._sizes[node] = None
            return True
        if (method or first) and node.args[1] == 0:
            self._sizes[node] = BATCH
            return True
        return False
