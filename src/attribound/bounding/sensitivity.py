"""How fast the linearised attribution can move in a ball of radius one.

Everything the paper bounds is this number times epsilon: one computation serves
every radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attribound.attributions import Linearization
from attribound.balls import unit_maximiser
from attribound.bounding.dense_limit import check_dense
from attribound.bounding.entrywise_sum import THEOREM_2, entrywise_sum
from attribound.bounding.l2_norm import INCLUSION, THEOREM_1, l2_norm
from attribound.bounding.largest_column import LARGEST_COLUMN, largest_column
from attribound.bounding.norm_relaxation import COROLLARY_1, norm_relaxation
from attribound.results import SpectralEstimate
from attribound.spectral import SpectralSolver


@dataclass(frozen=True)
class FirstOrder:
    """How the paper's bounds are computed.

    Attributes:
        solver: of the largest singular value.
        dense: for p = inf and p = 1, build the dense Jacobian (d products) to get
            Theorem 2 and the exact value; otherwise only what the singular value gives.
        dense_limit: bytes that may be spent on it; more is refused with an error.
        progress: show a progress bar on the terminal.
    """

    solver: SpectralSolver = field(default_factory=SpectralSolver)
    dense: bool = True
    dense_limit: int = 2**31
    progress: bool = False


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Upper value of max |J delta|_2 over |delta|_p <= 1, per example.

    Attributes:
        value: the smallest of what the paper offers for this p.
        source: which one that was.
        direction: where it is attained, or the best point known.
        spectral: the singular value behind it.
        products: operator products spent.
    """

    value: Tensor
    source: tuple[str, ...]
    direction: Tensor
    spectral: SpectralEstimate
    products: Tensor


def sensitivity(at_x: Linearization, p: float, method: FirstOrder) -> Sensitivity:
    """Collect every applicable upper value and keep the smallest, example by example."""
    dense = method.dense and p in (1, math.inf)
    if dense:
        check_dense(at_x.value, method.dense_limit)
    spectral = method.solver(at_x.jacobian)
    products = spectral.products
    direction = unit_maximiser(spectral.right, p)
    candidates: dict[str, Tensor] = {}
    if p > 2:
        candidates[COROLLARY_1] = norm_relaxation(spectral, p)
    else:
        candidates[THEOREM_1 if p == 2 else INCLUSION] = l2_norm(spectral)
    if dense:
        products = products + at_x.value[0].numel()
        with torch.no_grad():
            if p == 1:
                candidates[LARGEST_COLUMN], direction = largest_column(at_x.jacobian)
            else:
                candidates[THEOREM_2] = entrywise_sum(at_x.jacobian)
    value, which = torch.stack(list(candidates.values())).min(0)
    names = list(candidates)
    source = tuple(names[i] for i in which.tolist())
    return Sensitivity(value, source, direction, spectral, products)
