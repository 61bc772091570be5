"""The norm of an operator from one space into another, from below and from above."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.basics.tables import columns, render
from attribound.results.claims import Status
from attribound.results.spectral import Bracket


@dataclass(frozen=True, eq=False)
class NormEstimate:
    """The largest ``|J d|_2`` over a ball or a box for each example, and where it is nearly so.

    Attributes:
        value: attained below, certified above; the upper value fails with at most its
            probability, that of the singular value inside the certificate.
        point: in the ball (of norm one) or the box, ``(batch, *features)``, where
            ``|J point| = value.lower``.
        products: operator products spent on each example.
        status: converged, or why not.
    """

    value: Bracket
    point: Tensor
    products: Tensor
    status: tuple[Status, ...]

    def __repr__(self) -> str:
        numbers = columns(self.value.lower, self.value.upper, self.products)
        rows = list(zip(*numbers, self.status, strict=True))
        p = self.value.failure_probability
        title = f"NormEstimate (upper fails with probability <= {p:g})"
        return render(title, ["attained", "upper", "products", "status"], rows)
