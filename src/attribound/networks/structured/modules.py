"""Modules that are read as wholes: batch norms, and the normalisation of inputs."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn
from torch.fx import Node
from torch.nn.modules.batchnorm import _BatchNorm

from attribound.models.normalisation import Normalise
from attribound.networks.structured.folding import Folded, scale_and_shift
from attribound.networks.structured.linear import ConvolutionPiece, DensePiece, Scaling
from attribound.networks.structured.network import UnstructuredError
from attribound.networks.structured.operations import Piece, Reading, node_of

#: Their forward asks for the shape of what it gets, which a trace does not know.
LEAVES = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, Normalise)


def read_module(model: nn.Module, node: Node) -> Reading:
    """What a call of one of the :data:`LEAVES` does."""
    module = model.get_submodule(str(node.target))
    (x,) = node.args
    if isinstance(module, Normalise):
        return Reading(Scaling(lambda x: _normalising(module, x)), (node_of(x),))
    assert isinstance(module, _BatchNorm)
    if module.training or module.running_mean is None or module.running_var is None:
        raise UnstructuredError("a batch norm that mixes examples")
    return Reading(Scaling(lambda x: _norming(module, x)), (node_of(x),))


def folded(piece: Piece, node: Node, model: nn.Module) -> Piece | None:
    """``piece`` with the batch norm ``node`` after it; None if it is none, or can't be."""
    if node.op != "call_module" or not isinstance(piece, (ConvolutionPiece, DensePiece)):
        return None
    module = model.get_submodule(str(node.target))
    if not isinstance(module, _BatchNorm):
        return None
    weights = Folded(piece.weights, module)
    if isinstance(piece, DensePiece):
        return replace(piece, weights=weights, normed=True)
    return replace(piece, weights=weights)


def _columns(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 2))


def _normalising(module: Normalise, x: Tensor) -> tuple[Tensor, Tensor]:
    if len(module.mean) not in (1, x.shape[1]):
        raise ValueError("other channels")
    return _columns(1 / module.std, x), _columns(-module.mean / module.std, x)


def _norming(module: _BatchNorm, x: Tensor) -> tuple[Tensor, Tensor]:
    scale, shift = scale_and_shift(module)
    return _columns(scale, x), _columns(shift, x)
