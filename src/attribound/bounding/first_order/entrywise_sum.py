"""Theorem 2: in the cube the squared deviation is at most the sum of all |P_ij|, P = J^T J.

Valid for every J. The paper's claim of equality at the corners is not: it needs
signs with s_i s_j = sign P_ij for all i, j. P must be J^T J; with J J^T the sum
can lie below the truth.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.bounding.first_order.dense_limit import matrices
from attribound.operators import LinearOperator

THEOREM_2 = "theorem 2"
_COLUMNS = 512


def entrywise_sum(jacobian: LinearOperator) -> Tensor:
    """Upper value of max |J delta|_2 over |delta|_inf <= 1: sqrt(sum |J^T J|).

    The dense J of one example at a time is built from d products; P only in strips.
    """
    values = []
    for matrix in matrices(jacobian):
        total = torch.zeros((), dtype=torch.float64, device=matrix.device)
        for strip in torch.split(matrix, _COLUMNS, dim=1):
            total += (strip.T @ matrix).abs().sum(dtype=torch.float64)
        values.append(total.sqrt())
    return torch.stack(values).to(jacobian.domain)
