"""Golub-Kahan bidiagonalisation: the Krylov process of a general operator."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.operators import LinearOperator
from attribound.spectral.basis import Basis
from attribound.spectral.upper_estimate import largest_root


class GolubKahan:
    """``J V = U B`` with B upper bidiagonal, one entry of B for every product.

    Lanczos for J^T J in disguise, without squaring the condition number. After
    ``J^T u`` the matrix B is square, its tridiagonal matrix is B^T B and its
    off-diagonals are ``alpha_i * beta_i``. After ``J v`` the last alpha is the
    remainder: then B is one wider than high, and the process is Lanczos for J J^T
    started from ``J v_1``, whose component along the top vector is sigma times larger.
    """

    products_per_step = 2

    def __init__(self, start: Tensor, image: Tensor, capacity: int) -> None:
        """Start from unit vectors ``start`` ``(batch, n)``; ``image`` is like ``J start``."""
        self._v, self._u = Basis(start, capacity + 1), Basis(image, capacity)
        self._v.append(start)
        self._alpha: list[Tensor] = []
        self._beta: list[Tensor] = []

    @property
    def _halfway(self) -> bool:
        return len(self._alpha) > len(self._beta)

    def expand(self, operator: LinearOperator) -> None:
        """Spend one product."""
        if self._halfway:
            product = operator.rmatvec(self._u.last.view(operator.range.shape)).flatten(1)
            self._beta.append(self._v.append(product))
        else:
            product = operator.matvec(self._v.last.view(operator.domain.shape)).flatten(1)
            self._alpha.append(self._u.append(product))

    def bracket(self, log_tau: float) -> tuple[Tensor, Tensor]:
        """The largest singular value from below and from above, ``(batch,)`` doubles on the CPU."""
        if not self._beta:  # only |J v| is known
            alpha = self._double(self._alpha)[:, 0]
            return alpha, alpha * math.exp(-log_tau)
        sigma = torch.linalg.svdvals(self._bidiagonal())
        lower = sigma[:, 0]
        floor = rounding_floor(lower, self._v.last.dtype).unsqueeze(1)
        entries = torch.cat([self._double(self._alpha), self._double(self._beta)], 1)
        log_product = torch.log(torch.maximum(entries, floor)).sum(1)
        upper = largest_root(sigma**2, log_product, log_tau, half_at_zero=self._halfway).sqrt()
        return lower, torch.where(lower > 0, upper, lower)

    def residual(self) -> Tensor:
        """How far left and right vector of now are from a singular pair, ``(batch,)``."""
        if not self._beta:
            return torch.full((len(self._alpha[0]),), torch.inf, dtype=torch.float64)
        left, _, right = torch.linalg.svd(self._bidiagonal(), full_matrices=False)
        if self._halfway:
            remainder, component = self._alpha, right[:, 0, -1]
        else:
            remainder, component = self._beta, left[:, -1, 0]
        return self._double(remainder)[:, -1] * torch.abs(component)

    def vectors(self) -> tuple[Tensor, Tensor]:
        """Left and right singular vectors, ``(batch, m)`` and ``(batch, n)``."""
        if not self._beta:
            return self._u.last, self._v.last
        left, _, right = torch.linalg.svd(self._bidiagonal(), full_matrices=False)
        return self._u.combine(left[:, :, 0]), self._v.combine(right[:, 0, :])

    def select(self, index: Tensor) -> None:
        """Keep the examples ``index``."""
        self._v.select(index)
        self._u.select(index)
        self._alpha = [a[index] for a in self._alpha]
        self._beta = [b[index] for b in self._beta]

    def _bidiagonal(self) -> Tensor:
        """B of what is complete: ``(batch, k, k)``, or ``(batch, k, k + 1)`` halfway."""
        count = len(self._beta)
        alpha, beta = self._double(self._alpha)[:, :count], self._double(self._beta)
        square = torch.diag_embed(alpha) + torch.diag_embed(beta[:, :-1], offset=1)
        if not self._halfway:
            return square
        column = torch.zeros_like(square[:, :, :1])
        column[:, -1, 0] = beta[:, -1]
        return torch.cat([square, column], 2)

    @staticmethod
    def _double(values: list[Tensor]) -> Tensor:
        return torch.stack(values, 1).double().cpu()


def rounding_floor(scale: Tensor, dtype: torch.dtype) -> Tensor:
    """The size below which a recurrence coefficient is rounding, not information."""
    return scale * torch.finfo(dtype).eps
