"""What attacks say about the supremum: no bound seeded with them can lie below them."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.attacks.objectives import Problem
from attribound.basics.tensors import norm


def secants(problem: Problem, delta: Tensor, shells: int) -> Tensor:
    """Lower values ``(shells, batch)`` of the supremum in each shell, from one perturbation.

    Between two points of the segment from x to x + delta the attribution moves by
    at most their share of it times the supremum of |J(.) delta| on the way, so that
    ``shells * |g(x + k delta / shells) - g(x + (k - 1) delta / shells)|`` is at most
    the supremum in the k-th ball. The mean of these over the shells is, by the
    triangle inequality, at least the deviation at delta: a mean-value bound that
    respects them is not exceeded by this perturbation.
    """
    before, found = problem.clean, []
    for k in range(1, shells + 1):
        after = problem.attribution.revalue(problem.x + k / shells * delta, problem.target)
        found.append(shells * norm(after - before))
        before = after
    return torch.stack(found)
