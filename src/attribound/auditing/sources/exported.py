"""Networks saved by torch.export (``.pt2``)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen

from attribound.auditing.sources.loaded import LoadedModel, file_details, loaded
from attribound.auditing.sources.program import safe_archive
from attribound.auditing.sources.traced import TracedNetwork, check_network
from attribound.basics.errors import InputError, ModelError
from attribound.basics.limits import little_memory

_EXPORT = (
    "export it with any batch size, in eval mode, from an example of two inputs: "
    "torch.export.save(torch.export.export(model.eval(), (x,), "
    "dynamic_shapes=({0: torch.export.Dim('batch')},)), 'net.pt2')"
)


def load_exported(path: Path) -> LoadedModel:
    """The network of an exported program; no code from the file is run.

    Raises:
        InputError: the file is damaged, hostile or of a version that torch cannot read.
        ModelError: the program has a fixed batch size, or attributions of it cannot be bounded.
    """
    with little_memory(path.stat().st_size):
        return _load(path)


def _load(path: Path) -> LoadedModel:
    archive = safe_archive(path)
    try:
        program = torch.export.load(archive)
        module = program.module(check_guards=False)
    # A vetted archive can still be inconsistent in any way.
    except Exception as error:
        raise InputError(
            path.name,
            expected=f"a program that torch {torch.__version__} can load",
            got=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
            remedy="export it again with this version of torch",
        ) from error
    (name,) = program.graph_signature.user_inputs
    (value,) = (n.meta["val"] for n in program.graph.nodes if n.name == name)
    shape = tuple(value.shape)
    if not shape or isinstance(shape[0], int):
        raise ModelError(
            path.name,
            expected="a program that takes any number of inputs",
            got=f"one for inputs of shape {shape}",
            remedy=_EXPORT,
        )
    features = [size if isinstance(size, int) else None for size in shape[1:]]
    details = {"kind": "pt2", "shape": features, **file_details(path)}
    found = loaded(TracedNetwork(_plain(module)), path.stem, details)
    check_network(path.name, found.model, features, _EXPORT)
    return found


def _plain(module: GraphModule) -> GraphModule:
    """One tensor in, one out: without the wrapping of containers and the ban on eval()."""
    graph = module.graph
    graph.set_codegen(CodeGen())
    output = graph.output_node()
    (outputs,) = output.args
    output.args = cast("tuple[Node]", outputs)  # one, as the signature says
    for node in graph.nodes:
        node.meta.clear()  # what was known while it was traced, e.g. tensors without data
    return GraphModule(module, graph)
