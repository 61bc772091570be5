"""An orthonormal basis per example that grows by one vector at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.errors import ModelError


class Basis:
    """Orthonormal vectors ``(batch, count, n)``, kept so by full reorthogonalisation."""

    def __init__(self, like: Tensor, capacity: int) -> None:
        """Make an empty basis for vectors like ``like`` of shape ``(batch, n)``."""
        self._buffer = like.new_empty(len(like), min(capacity, 8), like.shape[1])
        self._capacity = capacity
        self.count = 0

    @property
    def vectors(self) -> Tensor:
        """The basis, ``(batch, count, n)``."""
        return self._buffer[:, : self.count]

    def append(self, w: Tensor) -> Tensor:
        """Orthogonalise ``w`` (batch, n), add it with norm one, and return the norm it had left.

        A vector that vanishes is added as zero: the Krylov space is exhausted.
        """
        w = w.clone()
        for _ in range(2 if self.count else 0):  # twice is enough
            overlap = torch.bmm(self.vectors, w.unsqueeze(2))
            w -= torch.bmm(self.vectors.transpose(1, 2), overlap).squeeze(2)
        length: Tensor = torch.linalg.vector_norm(w, dim=1)
        if not torch.isfinite(length).all():
            raise ModelError(
                "derivatives of the attribution",
                expected="finite numbers",
                got="NaN or infinity in a product with the Jacobian",
                remedy="use a smaller beta, float64, or inputs in the model's range",
            )
        if self.count == self._buffer.shape[1]:
            room = min(2 * self.count, self._capacity) - self.count
            pad = self._buffer.new_empty(len(w), room, w.shape[1])
            self._buffer = torch.cat([self._buffer, pad], 1)
        safe = torch.where(length > 0, length, torch.ones_like(length))
        self._buffer[:, self.count] = w / safe.unsqueeze(1)
        self.count += 1
        return length

    @property
    def last(self) -> Tensor:
        """The newest vector, ``(batch, n)``."""
        return self._buffer[:, self.count - 1]

    def combine(self, coefficients: Tensor) -> Tensor:
        """The sum of the first vectors times ``coefficients`` (batch, k), as ``(batch, n)``."""
        some = self._buffer[:, : coefficients.shape[1]]
        return torch.bmm(coefficients.to(some).unsqueeze(1), some).squeeze(1)

    def select(self, index: Tensor) -> None:
        """Keep the examples ``index``."""
        self._buffer = self._buffer[index]
