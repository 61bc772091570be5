"""Upper values of max |J d|_2 over the p-ball, p >= 2, from any positive weights.

For any y > 0, with D = Diag(y), ``|J d| <= sigma_max(J D^-1/2) |D^1/2 d|_2``, and
by Hoelder's inequality ``|D^1/2 d|_2^2 = sum y_i d_i^2 <= |y|_q* |d|_p^2`` with
q = p / 2 and 1/q + 1/q* = 1. So ``sqrt(|y|_q*) sigma_max(J D^-1/2)`` is never
below the norm, however y was found; for p = inf, |y|_q* is the sum of y. The best
y gives the value of the semidefinite relaxation, where y_i V_i = (P V)_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.operators import ColumnScaled, DenseOperator, LinearOperator
from attribound.results import SpectralEstimate
from attribound.spectral.solver import SpectralSolver

#: Share of their mean by which weights are raised: far below it they are noise.
REGULARISER = 0.01


def weights(row_norms: Tensor, p: float, regulariser: float = REGULARISER) -> Tensor:
    """Positive y from the rows' norms ``|(P V)_i|`` of the relaxation, ``(batch, n)``.

    At its optimum ``|V_i|`` is proportional to ``|(P V)_i|^(1/(p-1))``, and so y to
    ``|(P V)_i|^((p-2)/(p-1))``. Ones for an operator that is zero.
    """
    peak = row_norms.amax(1, keepdim=True)
    scaled = row_norms / torch.where(peak > 0, peak, torch.ones_like(peak))
    y = scaled if p == math.inf else scaled ** ((p - 2) / (p - 1))
    mean = y.mean(1, keepdim=True)
    return torch.where(mean > 0, y + regulariser * mean, torch.ones_like(y))


@dataclass(frozen=True, eq=False)
class UpperValue:
    """An upper value, ``(batch,)`` doubles on the CPU, and the singular value behind it.

    Attributes:
        upper: valid whatever the weights, except with the solver's failure probability.
        slope: ``D^1/2 v`` for the top right vector v, proportional to J^T J d at
            ``d = D^-1/2 v``, where the bound would be attained if d were in the ball.
        spectral: of ``J D^-1/2``.
    """

    upper: Tensor
    slope: Tensor
    spectral: SpectralEstimate


def certificate(
    operator: LinearOperator, y: Tensor, p: float, solver: SpectralSolver
) -> UpperValue:
    """The upper value that the weights ``y`` of shape ``(batch, n)`` give.

    The solver's start must be independent of ``y``, else its probability means nothing.
    """
    scale = y.rsqrt().view_as(operator.domain)
    spectral = solver(ColumnScaled(operator, scale))
    # The weights that are certified are those of the rounded scale, not y itself.
    upper = spectral.value.upper.double().cpu() * hoelder_factor(scale, p)
    return UpperValue(upper, spectral.right / scale, spectral)


def dense_certificate(operator: DenseOperator, y: Tensor, p: float) -> Tensor:
    """The same with the singular value of a dense matrix: no probability."""
    scale = y.rsqrt()
    sigma = torch.linalg.svdvals(operator.matrix * scale.unsqueeze(1))[:, 0]
    upper: Tensor = sigma.cpu() * hoelder_factor(scale, p)
    return upper


def hoelder_factor(scale: Tensor, p: float) -> Tensor:
    """``sqrt(|y|_q*)`` for y = scale^-2: the most that ``|d / scale|_2`` can be, ``(batch,)``."""
    inverse = scale.flatten(1).double().cpu().reciprocal()
    # |y|_q*^(1/2) = |1 / scale|_(2 q*), and 2 q* = 2 p / (p - 2).
    order = 2.0 if p == math.inf else math.inf if p == 2 else 2 * p / (p - 2)
    factor: Tensor = torch.linalg.vector_norm(inverse, ord=order, dim=1)
    return factor
