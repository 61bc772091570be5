"""p = 1, exactly: a convex function on the cross-polytope is largest at a vertex."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.bounding.first_order.dense_limit import matrices
from attribound.operators import LinearOperator

LARGEST_COLUMN = "largest column"


def largest_column(jacobian: LinearOperator) -> tuple[Tensor, Tensor]:
    """Maximum of |J delta|_2 over |delta|_1 <= 1, and the vertex where it is attained."""
    norms = [torch.linalg.vector_norm(m, dim=0) for m in matrices(jacobian)]
    value, index = torch.stack(norms).max(1)
    vertex = torch.zeros_like(jacobian.domain).flatten(1).scatter(1, index.unsqueeze(1), 1.0)
    return value, vertex.view_as(jacobian.domain)
