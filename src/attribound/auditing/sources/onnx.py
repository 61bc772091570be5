"""Networks from ONNX files, through onnx2fx (an extra).

Of the converters to PyTorch, onnx2fx is the one that works without torchvision:
onnx2torch 1.5.15 and onnx2pytorch 0.6.0 import it when they are imported. It is young (0.0.1, one
author), so that its version is pinned, and what it makes is probed before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attribound.auditing.sources.loaded import LoadedModel, file_details, loaded
from attribound.auditing.sources.traced import TracedNetwork, check_network
from attribound.basics.errors import InputError, ModelError
from attribound.basics.limits import little_memory
from attribound.basics.packages import package

_EXPORT = (
    "export it with any batch size, in eval mode: torch.onnx.export(model.eval(), (x,), "
    "'net.onnx', dynamo=True, dynamic_shapes=({0: torch.export.Dim('batch')},))"
)
_STANDARD = ("", "ai.onnx")
#: From here on softplus(t) - t is below 3e-9: PyTorch's own threshold.
_THRESHOLD = 20.0


def load_onnx(path: Path) -> LoadedModel:
    """The network of an ONNX file with standard operators alone; no code from the file is run.

    Raises:
        InputError: the file is damaged, has other operators, or onnx2fx is not installed.
        ModelError: the network has a fixed batch size, or attributions of it cannot be bounded.
    """
    onnx = package("onnx", extra="onnx", purpose=path.name)
    onnx2fx = package("onnx2fx", extra="onnx", purpose=path.name)
    with little_memory(path.stat().st_size):
        return _load(path, onnx, onnx2fx)


def _load(path: Path, onnx: Any, onnx2fx: Any) -> LoadedModel:
    proto = _read(path, onnx)
    shape = _shape(path, proto.graph)
    _rename(proto.graph)
    without_thresholds(proto.graph, onnx.numpy_helper.to_array)
    try:
        network = onnx2fx.convert(proto)
    # The converter has no common error; what it cannot convert may fail anywhere.
    except Exception as error:
        raise InputError(
            path.name,
            expected="operators that onnx2fx converts",
            got=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            remedy="export the network with torch.export instead (.pt2)",
        ) from error
    details = {"kind": "onnx", "shape": shape, **file_details(path)}
    found = loaded(TracedNetwork(network), path.stem, details)
    check_network(path.name, found.model, shape, _EXPORT)
    return found


def _read(path: Path, onnx: Any) -> Any:
    inliner = package("onnx.inliner", extra="onnx", purpose=path.name)
    try:
        proto = onnx.load(path)
        onnx.checker.check_model(proto)
        proto = inliner.inline_local_functions(proto)
    # Parsing errors of protobuf and onnx have no common base.
    except Exception as error:
        raise InputError(
            path.name,
            expected="a whole ONNX file",
            got=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            remedy="save or fetch it again",
        ) from error
    for node in proto.graph.node:
        inner = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if node.domain not in _STANDARD or inner:
            raise InputError(
                path.name,
                expected="standard ONNX operators without graphs inside",
                got=f"{node.domain or 'ai.onnx'}::{node.op_type}",
                remedy="export the network without custom operators and control flow",
            )
    return proto


def _shape(path: Path, graph: Any) -> list[int | None]:
    """The shape of an input without its batch, ``None`` where any size will do."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise ModelError(
            path.name,
            expected="a network of one input and one output",
            got=f"{len(inputs)} inputs and {len(graph.output)} outputs",
            remedy="export only the part from the input to the logits",
        )
    sizes = inputs[0].type.tensor_type.shape.dim
    shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in sizes]
    if not shape or shape[0] is not None:
        raise ModelError(
            path.name,
            expected="a network that takes any number of inputs",
            got=f"one for inputs of shape {tuple(shape)}",
            remedy=_EXPORT,
        )
    return shape[1:]


def _rename(graph: Any) -> None:
    """Number all values: the converter makes Python code with their names in it."""
    names = {"": ""}  # an optional input left out

    def number(name: str) -> str:
        return names.setdefault(name, f"v{len(names)}")

    for tensor in [*graph.initializer, *graph.input, *graph.output]:
        tensor.name = number(tensor.name)
    for position, node in enumerate(graph.node):
        node.name = f"n{position}"
        node.input[:] = [number(name) for name in node.input]
        node.output[:] = [number(name) for name in node.output]
    del graph.value_info[:], graph.sparse_initializer[:]


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
