"""The semidefinite relaxation of max |J d|_2 over the cube for a small dense J, to the end.

The mixing method (Wang, Chang and Kolter, 2017): one coordinate at a time,
``V_i <- normalised sum_j P_ij V_j`` over j != i. At full rank it has no spurious
optima.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TOLERANCE = 1e-4  # of dual over primal, both squares
_SWEEPS = 300
_CHECK_EVERY = 5


def mixing(matrix: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Relax max |J d| over the cube for one ``matrix`` (n, n) from the vectors ``start`` (rank, n).

    Returns:
        The product P V, ``(rank, n)``; the value of the relaxation from below; and an
        upper value that holds however far V is from the optimum, without probability.
    """
    gram = matrix.T @ matrix
    factor = torch.nn.functional.normalize(start.to(gram), dim=0).T.contiguous()
    diagonal = gram.diagonal()
    for sweep in range(1, _SWEEPS + 1):
        for i in range(len(gram)):
            pull = gram[i] @ factor - diagonal[i] * factor[i]
            length = torch.linalg.vector_norm(pull)
            factor[i] = torch.where(length > 0, pull / length, factor[i])
        if sweep % _CHECK_EVERY == 0 or sweep == _SWEEPS:
            product = gram @ factor
            primal, dual = (product * factor).sum(), shifted_dual(gram, product)
            if dual <= (1 + _TOLERANCE) * primal:
                break
    return product.T, primal.clamp_min(0).sqrt(), dual.sqrt()


def shifted_dual(gram: Tensor, product: Tensor) -> Tensor:
    """An upper value of d^T P d over the cube: the sum of y, for a y with Diag(y) - P >= 0.

    For such y, ``d^T P d <= sum y_i d_i^2 <= sum y``. It is ``y_i = |(P V)_i|``, raised
    alike by whatever the largest eigenvalue of ``P - Diag(y)`` lies above zero,
    rounding included.
    """
    y = torch.linalg.vector_norm(product, dim=1)
    excess = torch.linalg.eigvalsh(gram - torch.diag(y))[-1].clamp_min(0)
    rounding = len(gram) * torch.finfo(gram.dtype).eps * (torch.linalg.matrix_norm(gram) + y.max())
    total: Tensor = y.sum() + len(gram) * (excess + rounding)
    return total
