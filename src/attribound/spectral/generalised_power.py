"""The semidefinite relaxation of max |J d|_2 over the p-ball, at low rank and by products alone.

Relaxed, a number d_i becomes a vector V_i of ``rank`` numbers: maximise
``tr(V^T P V)`` with P = J^T J over ``sum |V_i|_2^p <= 1``, for p = inf over
``|V_i|_2 <= 1``. The objective is convex, so that going from V to the maximiser
of its linearisation at V, a matter of Hoelder's inequality, never lowers it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attribound.balls import unit_maximiser
from attribound.operators import LinearOperator


@dataclass(frozen=True, eq=False)
class Relaxed:
    """All that the power method multiplied, and the products.

    Attributes:
        factors: V of all steps, ``(batch, iterations * rank, n)``.
        images: P V, of the same shape.
        rank: columns of one step.
    """

    factors: Tensor
    images: Tensor
    rank: int

    @property
    def product(self) -> Tensor:
        """P V of the last step, ``(batch, rank, n)``."""
        return self.images[:, -self.rank :]

    @property
    def value(self) -> Tensor:
        """``sqrt(tr V^T P V)`` of the last step, ``(batch,)``: below the relaxation's optimum."""
        last = self.factors[:, -self.rank :] * self.product
        return last.sum((1, 2), dtype=torch.float64).clamp_min(0).sqrt()

    @property
    def row_norms(self) -> Tensor:
        """``|(P V)_i|_2`` of the last step, ``(batch, n)``: weights of a certificate."""
        lengths: Tensor = torch.linalg.vector_norm(self.product, dim=1)
        return lengths

    @property
    def products(self) -> int:
        """Operator products spent on each example."""
        return 2 * self.factors.shape[1]


def generalised_power(
    operator: LinearOperator, p: float, start: Tensor, iterations: int
) -> Relaxed:
    """``iterations`` steps from the rows ``start`` of shape ``(rank, n)``, the same for everyone.

    One column at a time, for all examples together, on the operator's graph as it is:
    ``2 * rank * iterations`` products for each example.
    """
    like, rank = operator.domain, len(start)
    factors = start.new_empty(len(like), iterations * rank, start.shape[1]).to(like)
    images = torch.empty_like(factors)
    slope = start.to(like).expand(len(like), *start.shape)
    for step in range(iterations):
        now = slice(step * rank, (step + 1) * rank)
        factors[:, now] = maximiser(slope, p)
        for column in range(now.start, now.stop):
            once = operator.matvec(factors[:, column].reshape(like.shape))
            images[:, column] = operator.rmatvec(once).flatten(1)
        slope = images[:, now]
    return Relaxed(factors, images, rank)


def maximiser(slope: Tensor, p: float) -> Tensor:
    """The V with the largest inner product with ``slope``, both ``(batch, rank, n)``.

    Each row points along that of the slope; the rows' lengths are those of the
    p-ball's own maximiser. A row whose slope is zero stays zero.
    """
    lengths = torch.linalg.vector_norm(slope, dim=1, keepdim=True)
    safe = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    radius = unit_maximiser(lengths.squeeze(1), p).unsqueeze(1)
    return slope / safe * radius


def gaussians(count: int, size: int, seed: int, stream: int) -> Tensor:
    """``count`` standard normal vectors; streams are independent of each other.

    And of the solver's start vector, whatever its seed: NumPy's generator, not
    PyTorch's. The certificate's probability rests on that.
    """
    draw = np.random.default_rng([seed, stream]).standard_normal((count, size))
    return torch.from_numpy(draw)


def full_rank(size: int) -> int:
    """A rank from which on the relaxation at low rank has no spurious optima (Pataki)."""
    return min(size, math.ceil(math.sqrt(2 * size)) + 1)
