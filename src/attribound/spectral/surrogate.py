"""What the products of the power method already say about P = J^T J, used again for nothing.

From V and P V, all columns of all steps, Nystroem's approximation
``P V (V^T P V)^+ V^T P`` is the best P that these show: equal to P on the span of V,
never above it, exact if P has no larger rank. On it the power method and the
ascent of corners cost no products.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.balls import unit_maximiser
from attribound.spectral.generalised_power import Relaxed, maximiser

#: Directions of V below this share of the largest eigenvalue of V^T P V are rounding.
_NEGLIGIBLE = 1e-5
_STEPS = 20
_ASCENTS = 4


@dataclass(frozen=True, eq=False)
class Surrogate:
    """``F^T F`` in place of P; ``half`` is F, ``(batch, m, n)``."""

    half: Tensor

    def gram(self, v: Tensor) -> Tensor:
        """``F^T F v`` for v of shape ``(batch, k, n)``."""
        return v @ self.half.mT @ self.half

    def values(self, points: Tensor) -> Tensor:
        """``|F d|`` of points ``(batch, k, n)``, shape ``(batch, k)``."""
        lengths: Tensor = torch.linalg.vector_norm(points @ self.half.mT, dim=2)
        return lengths


def nystroem(factors: Tensor, products: Tensor) -> Surrogate:
    """The surrogate from ``factors`` V and ``products`` P V, both ``(batch, m, n)``."""
    columns, images = factors.double(), products.double()
    core = columns @ images.mT
    value, vector = torch.linalg.eigh((core + core.mT) / 2)
    known = value > _NEGLIGIBLE * value[:, -1:]
    root = torch.where(known, torch.where(known, value, 1.0).rsqrt(), 0.0)
    return Surrogate(((vector * root.unsqueeze(1)).mT @ images).to(products))


def refine(surrogate: Surrogate, relaxed: Relaxed, p: float) -> tuple[Tensor, Tensor]:
    """The power method, carried on with the surrogate.

    Returns:
        P V, ``(batch, rank, n)``, of the surrogate, and norms of its rows ``(batch, n)``:
        where the last true product had a longer row, that, since the surrogate knows
        nothing of the smaller singular values, and a weight too small costs more
        than one too large.
    """
    product = relaxed.product
    for _ in range(_STEPS):
        product = surrogate.gram(maximiser(product, p))
    lengths = torch.linalg.vector_norm(product, dim=1)
    return product, torch.maximum(lengths, torch.linalg.vector_norm(relaxed.product, dim=1))


def promising(surrogate: Surrogate, points: Tensor, p: float, count: int) -> Tensor:
    """The best ``count`` points, by the surrogate, of an ascent from each of ``points``.

    ``points`` is ``(batch, many, n)``, the answer ``(batch, count, n)``.
    """
    for _ in range(_ASCENTS):
        points = unit_maximiser(surrogate.gram(points).flatten(0, 1), p).view_as(points)
    best = surrogate.values(points).topk(count, dim=1).indices
    return points.gather(1, best.unsqueeze(2).expand(-1, -1, points.shape[2]))
