"""Corollary 1: an lp ball, p > 2, lies in an l2 ball that is larger by a power of d."""

from __future__ import annotations

import math

from torch import Tensor

from attribound.results import SpectralEstimate

COROLLARY_1 = "corollary 1"


def norm_relaxation(estimate: SpectralEstimate, p: float) -> Tensor:
    """Upper value of max |J delta|_2 over |delta|_p <= 1: d^(1/2 - 1/p) * xi."""
    dimension = estimate.right[0].numel()
    exponent = 0.5 - (0.0 if p == math.inf else 1 / p)
    factor: float = dimension**exponent
    return factor * estimate.value.upper
