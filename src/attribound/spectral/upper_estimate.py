"""From Ritz values to an upper estimate of the largest eigenvalue.

A Ritz value lies below the largest eigenvalue, however long one iterates. The
bound here (van Dorsselaer, Hochstenbach and van der Vorst, SIAM J. Matrix Anal.
Appl. 22, 2000) lies above it, except with a small probability over the random
start: the Lanczos polynomial p with roots at the Ritz values theta_i satisfies
``|p(A) v| = product of the off-diagonal entries =: c``, and the start v has a
component of at least tau along the top eigenvector, so that
``tau * p(lambda_max) <= c``: lambda_max is at most the largest root of
``p(lambda) = c / tau``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_BISECTIONS = 50  # of an interval that is at most c / tau wide: to 1e-15 of it


def log_component(dimension: int, failure_probability: float) -> float:
    """Log of tau: a uniform unit vector's component along any line is smaller only with
    ``failure_probability``, because it is so with probability at most 0.8 sqrt(n) tau.
    """
    return math.log(failure_probability / (0.8 * math.sqrt(dimension)))


def largest_root(
    theta: Tensor, log_product: Tensor, log_tau: float, *, half_at_zero: bool = False
) -> Tensor:
    """The largest root, rounded up, of ``prod(lambda - theta_i) = exp(log_product) / tau``.

    Args:
        theta: Ritz values ``(batch, k)``, double precision.
        log_product: log of the product of off-diagonals, ``(batch,)``; -inf if one is zero.
        log_tau: see :func:`log_component`.
        half_at_zero: with the factor ``sqrt(lambda)`` on the left, too.
    """
    weights = theta.new_ones(theta.shape[1])
    if half_at_zero:
        theta = torch.cat([theta, torch.zeros_like(theta[:, :1])], 1)
        weights = torch.cat([weights, weights.new_full((1,), 0.5)])
    top = theta.amax(1, keepdim=True)
    gaps = top - theta
    level = log_product.unsqueeze(1) - log_tau
    low = torch.zeros_like(top)
    # Every factor is at least the distance t from the top, so t^k <= c / tau.
    high = torch.exp(level / weights.sum())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = (torch.log(middle + gaps) * weights).sum(1, keepdim=True) >= level
        low = torch.where(above, low, middle)
        high = torch.where(above, middle, high)
    return (top + high).squeeze(1)
