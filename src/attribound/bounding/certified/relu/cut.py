"""Proved upper values of the largest ``|c + sum_i f_i G_i|`` over all f from 0 to 1.

The norm is convex: the maximum is at a corner. A few items are tried one and all. For more,
f = (1 + sigma) / 2 makes it |H^T sigma|^2 over signs, with rows H = [G / 2; c + sum G / 2], and
every y > 0 with Diag(y) - H H^T positive semidefinite gives sum y: the dual of the relaxation of a
maximal cut. y comes from the generalised power method and is scaled by a largest eigenvalue that is
proved, of the smaller of the two matrices H H^T and H^T H.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.basics.rounding import SLACK, TINY, up
from attribound.bounding.certified.quadratic import proved

_CORNERS = 10  # items that are tried one and all
_COLUMNS, _ITERATIONS = 16, 30


def longest(centre: Tensor, items: Tensor) -> float:
    """The largest norm of ``centre (d,)`` plus a part of each of ``items (n, d)``, from above."""
    items = items[items.abs().amax(1) > 0] if len(items) else items
    if not bool(torch.isfinite(items).all()) or not bool(torch.isfinite(centre).all()):
        return math.inf
    if len(items) <= _CORNERS:
        return _margin(centre, items, _corners(centre, items))
    ends = torch.maximum(
        (centre + items.clamp_min(0).sum(0)).abs(), (centre + items.clamp_max(0).sum(0)).abs()
    )
    return _margin(centre, items, min(ends.norm().item(), _dual(centre, items)))


def _margin(centre: Tensor, items: Tensor, value: float) -> float:
    size = centre.norm().item() + (items.norm(dim=1).sum().item() if len(items) else 0.0)
    return float(value * (1 + SLACK) + SLACK * size + TINY)


def _corners(centre: Tensor, items: Tensor) -> float:
    sums = centre.unsqueeze(0)
    for item in items:
        sums = torch.cat([sums, sums + item])
    return float(sums.norm(dim=1).max())


def signs(items: Tensor, columns: Tensor | None = None, rounds: int = _ITERATIONS) -> Tensor:
    """Unit rows that nearly maximise |H^T V|: an estimate, no bound."""
    if columns is None:
        generator = torch.Generator().manual_seed(0)
        columns = torch.randn(len(items), _COLUMNS, generator=generator, dtype=torch.float64)
    for _ in range(rounds):
        image = items @ (items.T @ columns)
        columns = image / image.norm(dim=1, keepdim=True).clamp_min(TINY)
    return columns


def _dual(centre: Tensor, items: Tensor) -> float:
    rows = torch.cat([items / 2, (centre + items.sum(0) / 2).unsqueeze(0)])
    columns = signs(rows)
    y = (rows @ (rows.T @ columns)).norm(dim=1)
    y = y + 0.002 * y.mean() + TINY
    scaled = rows / y.sqrt().unsqueeze(1)
    matrix = scaled.T @ scaled if len(rows) > rows.shape[1] else scaled @ scaled.T
    largest = eigenvalue(matrix)
    # The Gram matrix and the scaling are rounded, relative to its trace.
    largest += SLACK * matrix.diagonal().sum().item()
    return math.sqrt(largest * y.sum().item() * (1 + SLACK))


def eigenvalue(matrix: Tensor) -> float:
    """The largest eigenvalue of a positive semidefinite matrix, from above, proved."""
    matrix = (matrix + matrix.T) / 2
    try:
        largest = torch.linalg.eigvalsh(matrix)[-1].item()
    except RuntimeError:  # no convergence
        return math.inf
    eye = torch.eye(len(matrix), dtype=torch.float64)
    for digits in range(12, 2, -1):
        above = max(largest, 0.0) * (1 + 10.0**-digits) + TINY
        deficit = proved(above * eye - matrix)
        if deficit is not None:
            return up(torch.tensor(above + deficit, dtype=torch.float64)).item()
    return math.inf
