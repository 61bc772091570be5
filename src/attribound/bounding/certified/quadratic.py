"""Quadratic forms over a ball: proved upper values of max delta^T P delta, |delta|_p <= 1.

For p >= 2, any y > 0 with Diag(y) - P positive semidefinite gives
delta^T P delta <= sum y_i delta_i^2 <= |y|_q, q dual to p / 2; for p = 2 that is the
largest eigenvalue, for p = inf the dual of the semidefinite relaxation. Definiteness
is *proved* by a Cholesky factorisation that runs to its end (Demmel; Rump, 2006): in
floating point that happens only if no eigenvalue is below -gamma_{n+1} trace / (1 - gamma_{n+1}),
which is added to y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, gamma
from attribound.bounding.certified.expansion import dual_order

_COLUMNS, _ITERATIONS = 16, 12


@dataclass(frozen=True, eq=False)
class Form:
    """A sum of squares ``sum_j w_j (row_j . delta)^2``, w >= 0, as a dense matrix.

    ``mass``, at least ``sum_j w_j |row_j|^2`` in the dual norm, bounds the form itself,
    and its rounding errors relative to it.
    """

    matrix: Tensor
    mass: float

    @classmethod
    def of(cls, rows: Tensor, weights: Tensor, p: float) -> Form:
        """``rows`` as columns, ``(d, n)``; weights ``(n,)``."""
        lengths = torch.linalg.vector_norm(rows, ord=dual_order(p), dim=0)
        mass = (weights * lengths**2).sum().item()
        return cls((rows * weights) @ rows.T, mass * (1 + SLACK) + TINY)

    @classmethod
    def zero(cls, size: int) -> Form:
        """No squares."""
        return cls(torch.zeros(size, size, dtype=torch.float64), 0.0)

    def __add__(self, other: Form) -> Form:
        return Form(self.matrix + other.matrix, (self.mass + other.mass) * (1 + SLACK))

    def __rmul__(self, factor: float) -> Form:
        return Form(factor * self.matrix, factor * self.mass * (1 + SLACK))

    def at(self, directions: Tensor) -> float:
        """The form summed over the columns of ``directions``: an estimate, no bound."""
        return float((directions * (self.matrix @ directions)).sum())

    def worst(self, p: float, start: Tensor | None = None) -> Tensor:
        """Columns whose outer products nearly solve the relaxation over the p-ball.

        The generalised power method: an estimate, no bound.
        """
        size = len(self.matrix)
        if p == 1:
            return torch.eye(size, dtype=torch.float64)[:, [int(self.matrix.diagonal().argmax())]]
        columns = start
        if columns is None:
            generator = torch.Generator().manual_seed(0)
            columns = torch.randn(size, _COLUMNS, generator=generator, dtype=torch.float64)
        for _ in range(_ITERATIONS):
            image = self.matrix @ columns
            length = image.norm(dim=1)
            columns = image * (_shares(length, p) / length.clamp_min(TINY)).unsqueeze(1)
        return columns

    def maximum(self, p: float) -> float:
        """A proved upper value of the form over the unit p-ball."""
        rounding = SLACK * self.mass + TINY
        candidates = [self.mass * (1 + SLACK)]
        matrix = (self.matrix + self.matrix.T) / 2
        if not math.isfinite(self.mass) or not torch.isfinite(matrix).all():
            return math.inf
        if p == 1:  # convex: attained at a vertex
            candidates.append(matrix.diagonal().max().item() + rounding)
        if p == math.inf:
            candidates.append(matrix.abs().sum(1).sum().item() * (1 + SLACK) + rounding)
        if p > 1 and self.mass > 0:
            y = torch.ones(len(matrix), dtype=torch.float64) if p <= 2 else self._weights(p)
            candidates.append(dominate(matrix, y, p) + rounding)
        return max(min(candidates), 0.0)

    def _weights(self, p: float) -> Tensor:
        """The y of the relaxation at its nearly best columns, kept away from zero."""
        columns = self.worst(p)
        image = (self.matrix @ columns).norm(dim=1)
        y: Tensor = image / columns.norm(dim=1).clamp_min(TINY)
        return y + 0.01 * y.mean() + TINY


def _shares(length: Tensor, p: float) -> Tensor:
    """Lengths of the rows that the p-ball allows, best for these slopes."""
    if p == math.inf:
        return torch.ones_like(length)
    point = (length / length.max().clamp_min(TINY)) ** (1 / (max(p, 2.0) - 1))
    share: Tensor = point / torch.linalg.vector_norm(point, max(p, 2.0)).clamp_min(TINY)
    return share


def dominate(matrix: Tensor, y: Tensor, p: float) -> float:
    """Upper value over the unit p-ball, p > 1, from the smallest multiple of Diag(y) above.

    The multiple comes from an eigenvalue solver and is proved afterwards; if the proof
    fails with ever larger margins, infinity.
    """
    size = len(matrix)
    root = y.rsqrt()
    scaled = matrix * root * root.unsqueeze(1)
    try:
        largest = torch.linalg.eigvalsh((scaled + scaled.T) / 2)[-1].item()
    except RuntimeError:  # no convergence
        return math.inf
    for digits in range(12, 2, -1):
        above = y * (max(largest, 0.0) * (1 + 10.0**-digits) + TINY)
        deficit = proved(torch.diag(above) - matrix)
        if deficit is not None:
            return dual_length(above, p) + deficit * float(size ** max(0.0, 1 - 2 / p))
    return math.inf


def proved(matrix: Tensor) -> float | None:
    """A number that makes ``matrix`` positive semidefinite when added to its diagonal.

    None if the factorisation fails: then nothing is proved. ``matrix`` may have been
    rounded once on its diagonal.
    """
    if torch.linalg.cholesky_ex(matrix).info.item() != 0:
        return None
    trace = matrix.diagonal().sum().item()
    return 2 * gamma(len(matrix) + 4) * trace + TINY


def dual_length(y: Tensor, p: float) -> float:
    """|y|_q with q dual to p / 2, from above: max of sum y_i delta_i^2 over |delta|_p <= 1."""
    if p <= 2:
        return y.max().item()
    q = 1.0 if p == math.inf else 1 / (1 - 2 / p)
    scale = y.max().item()
    return scale * float(torch.linalg.vector_norm(y / scale, q)) * (1 + SLACK)
