"""Theorem 1: in an l2 ball the linearised attribution moves by at most xi * epsilon."""

from __future__ import annotations

from torch import Tensor

from attribound.results import SpectralEstimate

THEOREM_1 = "theorem 1"
INCLUSION = "theorem 1, ball within the l2 ball"


def l2_norm(estimate: SpectralEstimate) -> Tensor:
    """Maximum of |J delta| over |delta|_2 <= 1: the largest singular value, from above.

    For 1 <= p < 2 the p-ball lies within the l2 ball, so that the value holds there, too.
    """
    return estimate.value.upper
