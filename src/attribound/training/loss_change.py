"""What IG-NORM and IG-SUM-NORM keep small: the attribution of the change of the loss."""

from __future__ import annotations

from torch import Tensor, nn

from attribound.attributions.hessian import Path
from attribound.attributions.quadrature import rule
from attribound.basics.tensors import norm
from attribound.training.gradients import along, loss


def loss_change(
    model: nn.Module, x: Tensor, moved: Tensor, y: Tensor, steps: int, quadrature: str
) -> Tensor:
    """The 1-norm of the integrated gradients of the loss from x to x', per example.

    By completeness its entries sum to the change of the loss (up to the quadrature), so that
    this is at least the size of that change.
    """
    nodes, weights = rule(quadrature, steps)
    path = Path(x, moved - x, nodes.to(x), weights.to(x), y)
    return norm(along(model, path, loss), 1)
