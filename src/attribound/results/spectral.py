"""Singular values from below and from above."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.basics.tables import columns, render
from attribound.results.claims import Status


@dataclass(frozen=True, eq=False)
class Bracket:
    """A value per example, from below (``lower``) and from above (``upper``).

    ``upper`` fails, independently of how far the iteration got, with at most
    ``failure_probability`` over the random start of the solver.
    """

    lower: Tensor
    upper: Tensor
    failure_probability: float

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.lower, self.upper), strict=True))
        title = f"Bracket (upper fails with probability <= {self.failure_probability:g})"
        return render(title, ["lower", "upper"], rows)


@dataclass(frozen=True, eq=False)
class SpectralEstimate:
    """The largest singular value of each example's operator, bracketed, and its vectors.

    Attributes:
        value: Ritz value below, probabilistic upper estimate above.
        left, right: unit vectors with ``J right ~ lower * left``, shape ``(batch, *features)``.
        residual: Euclidean norm of ``J^T left - lower * right``.
        products: operator products spent on each example.
        status: converged, or why not.
    """

    value: Bracket
    left: Tensor
    right: Tensor
    residual: Tensor
    products: Tensor
    status: tuple[Status, ...]

    def __repr__(self) -> str:
        numbers = columns(self.value.lower, self.value.upper, self.residual, self.products)
        rows = list(zip(*numbers, self.status, strict=True))
        header = ["ritz", "upper", "residual", "products", "status"]
        p = self.value.failure_probability
        return render(f"SpectralEstimate (upper fails with probability <= {p:g})", header, rows)
