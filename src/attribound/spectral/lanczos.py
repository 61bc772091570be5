"""Lanczos: the Krylov process of a symmetric operator, at one product a step."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.operators import LinearOperator
from attribound.spectral.basis import Basis
from attribound.spectral.golub_kahan import rounding_floor
from attribound.spectral.upper_estimate import largest_root


class Lanczos:
    """``H V = V T`` with T tridiagonal; the spectral norm is the larger end of its spectrum.

    With as many products it sees a Krylov space twice as large as Golub-Kahan,
    and nearly opposite eigenvalues do not disturb it.
    """

    products_per_step = 1

    def __init__(self, start: Tensor, image: Tensor, capacity: int) -> None:  # noqa: ARG002
        """Start from unit vectors ``start`` of shape ``(batch, n)``, as its images are, too."""
        self._v = Basis(start, capacity + 1)
        self._v.append(start)
        self._alpha: list[Tensor] = []
        self._beta: list[Tensor] = []

    def expand(self, operator: LinearOperator) -> None:
        """Take one step."""
        last = self._v.last.clone()
        product = operator.matvec(last.view(operator.domain.shape)).flatten(1)
        self._alpha.append((last * product).sum(1))
        self._beta.append(self._v.append(product))

    def bracket(self, log_tau: float) -> tuple[Tensor, Tensor]:
        """The spectral norm from below and from above, ``(batch,)`` doubles on the CPU."""
        theta = torch.linalg.eigvalsh(self._tridiagonal())
        lower = theta.abs().amax(1)
        floor = rounding_floor(lower, self._v.last.dtype).unsqueeze(1)
        beta = torch.stack(self._beta, 1).double().cpu()
        log_product = torch.log(torch.maximum(beta, floor)).sum(1)
        # One eigenvector carries the norm, at whichever end it lies: one failure probability.
        both = torch.cat([theta, -theta]), torch.cat([log_product, log_product])
        upper = largest_root(*both, log_tau).view(2, -1).amax(0)
        return lower, torch.where(lower > 0, upper, lower)

    def residual(self) -> Tensor:
        """Norm of ``H right - lower * left`` for the vectors of now, ``(batch,)``."""
        _, coefficients = self._top()
        return self._beta[-1].double().cpu() * coefficients[:, -1].abs()

    def vectors(self) -> tuple[Tensor, Tensor]:
        """Left and right singular vectors, ``(batch, n)``."""
        value, coefficients = self._top()
        right = self._v.combine(coefficients)
        sign = torch.where(value < 0, -1.0, 1.0).to(right)
        return sign.unsqueeze(1) * right, right

    def _top(self) -> tuple[Tensor, Tensor]:
        """The Ritz value of largest modulus and its vector in the basis, ``(batch, k)``."""
        theta, vectors = torch.linalg.eigh(self._tridiagonal())
        top = theta.abs().argmax(1)
        rows = torch.arange(len(theta))
        return theta[rows, top], vectors[rows, :, top]

    def select(self, index: Tensor) -> None:
        """Keep the examples ``index``."""
        self._v.select(index)
        self._alpha = [a[index] for a in self._alpha]
        self._beta = [b[index] for b in self._beta]

    def _tridiagonal(self) -> Tensor:
        alpha = torch.stack(self._alpha, 1).double().cpu()
        beta = torch.stack(self._beta, 1).double().cpu()[:, :-1]
        off = torch.diag_embed(beta, offset=1)
        return torch.diag_embed(alpha) + off + off.mT
