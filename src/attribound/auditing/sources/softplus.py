"""Softplus as PyTorch exports it to ONNX, made one operator again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: From here on softplus(t) - t is below 3e-9: PyTorch's own threshold.
_THRESHOLD = 20.0


def without_thresholds(graph: Any, to_array: Callable[[Any], Any]) -> None:
    """Replace ``where(b x > t, x, softplus(b x) / b)`` by its last part, in place, for t >= 20.

    This is how ``torch.onnx.export`` writes ``Softplus(b, t)``. The comparison would be
    taken for a kink; PyTorch's softplus of one argument makes it again inside.
    """
    constants = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    made = {name: node for node in graph.node for name in node.output}

    def arguments(name: str, operator: str) -> list[str]:
        node = made.get(name)
        return list(node.input) if node is not None and node.op_type == operator else []

    for node in graph.node:
        if node.op_type != "Where":
            continue
        condition, x, smooth = node.input
        scaled, limit = arguments(condition, "Greater") or ("", "")
        inside, divisor = arguments(smooth, "Div") or ("", "")
        whole = constants.get(limit)
        if (
            whole is not None
            and (whole >= _THRESHOLD).all()
            and divisor in constants
            and arguments(inside, "Softplus") == [scaled]
            and sorted(arguments(scaled, "Mul")) == sorted([x, divisor])
        ):
            node.op_type = "Identity"
            node.input[:] = [smooth]
    used = {name for node in graph.node for name in node.input}
    for node in [node for node in graph.node if node.op_type == "Greater"]:
        if used.isdisjoint(node.output):
            graph.node.remove(node)
