"""Golub-Kahan bidiagonalisation: the Krylov process of a general operator."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.operators import LinearOperator
from attribound.spectral.basis import Basis
from attribound.spectral.upper_estimate import largest_root


class GolubKahan:
    """``J V = U B`` with B upper bidiagonal, one row of B per step and two products each.

    Lanczos for J^T J in disguise, without squaring the condition number: its
    tridiagonal matrix is B^T B, with off-diagonals ``alpha_i * beta_i``.
    """

    products_per_step = 2

    def __init__(self, start: Tensor, capacity: int) -> None:
        """Start from unit vectors ``start`` of shape ``(batch, n)``."""
        self._v, self._u = Basis(start, capacity + 1), Basis(start, capacity)
        self._v.append(start)
        self._alpha: list[Tensor] = []
        self._beta: list[Tensor] = []

    def expand(self, operator: LinearOperator) -> None:
        """Take one step."""
        shape = operator.like.shape
        self._alpha.append(self._u.append(operator.matvec(self._v.last.view(shape)).flatten(1)))
        self._beta.append(self._v.append(operator.rmatvec(self._u.last.view(shape)).flatten(1)))

    def bracket(self, log_tau: float) -> tuple[Tensor, Tensor]:
        """The largest singular value from below and from above, ``(batch,)`` doubles on the CPU."""
        sigma = torch.linalg.svdvals(self._bidiagonal())
        lower = sigma[:, 0]
        floor = rounding_floor(lower, self._v.last.dtype).unsqueeze(1)
        steps = torch.cat([self._double(self._alpha), self._double(self._beta)], 1)
        log_product = torch.log(torch.maximum(steps, floor)).sum(1)
        upper = largest_root(sigma**2, log_product, log_tau).sqrt()
        return lower, torch.where(lower > 0, upper, lower)

    def residual(self) -> Tensor:
        """Norm of ``J^T left - lower * right`` for the vectors of now, ``(batch,)``."""
        left, _, _ = torch.linalg.svd(self._bidiagonal())
        last: Tensor = left[:, -1, 0].abs()
        return self._double(self._beta)[:, -1] * last

    def vectors(self) -> tuple[Tensor, Tensor]:
        """Left and right singular vectors, ``(batch, n)``."""
        left, _, right = torch.linalg.svd(self._bidiagonal())
        return self._u.combine(left[:, :, 0]), self._v.combine(right[:, 0, :])

    def select(self, index: Tensor) -> None:
        """Keep the examples ``index``."""
        self._v.select(index)
        self._u.select(index)
        self._alpha = [a[index] for a in self._alpha]
        self._beta = [b[index] for b in self._beta]

    def _bidiagonal(self) -> Tensor:
        alpha, beta = self._double(self._alpha), self._double(self._beta)
        return torch.diag_embed(alpha) + torch.diag_embed(beta[:, :-1], offset=1)

    @staticmethod
    def _double(values: list[Tensor]) -> Tensor:
        return torch.stack(values, 1).double().cpu()


def rounding_floor(scale: Tensor, dtype: torch.dtype) -> Tensor:
    """The size below which a recurrence coefficient is rounding, not information."""
    return scale * torch.finfo(dtype).eps
