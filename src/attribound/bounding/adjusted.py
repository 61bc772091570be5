"""The generalised Theorem 1: T'_e = c * T_e, with c estimated at the linearised optimum.

The theorem needs c with |R| <= (c - 1) xi epsilon for the remainder R everywhere
in the ball. Two points give only a lower estimate of it: T'_e is empirical.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.attributions import Attribution, Linearization
from attribound.tensors import norm


def adjusted(
    attribution: Attribution, x: Tensor, at_x: Linearization, delta: Tensor, euclidean: Tensor
) -> Tensor:
    """max(T_e, |g(x + delta) - g(x)|, |g(x - delta) - g(x)|), per example."""
    deviations = [norm(attribution(x + sign * delta, at_x.target) - at_x.value) for sign in (1, -1)]
    return torch.stack([euclidean, *deviations]).amax(0)
