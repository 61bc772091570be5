"""The generalised Theorem 1: T'_e = c * T_e, with c estimated at the linearised optimum.

The theorem needs c with |R| <= (c - 1) xi epsilon for the remainder R everywhere
in the ball. Two points give only a lower estimate of it: T'_e is empirical.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.attributions import Attribution, Linearization
from attribound.basics.tensors import norm


def adjusted(
    attribution: Attribution, x: Tensor, at_x: Linearization, deltas: list[Tensor], bound: Tensor
) -> Tensor:
    """The largest of the bound and |g(x + delta) - g(x)| at ``deltas``, per example."""
    deviations = [norm(attribution(x + delta, at_x.target) - at_x.value) for delta in deltas]
    return torch.stack([bound, *deviations]).amax(0)
