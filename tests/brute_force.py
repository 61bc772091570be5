"""Slow and certain: the largest |J d| over boxes and p-balls of small dimension."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor


def corners(size: int) -> Tensor:
    """All sign vectors ``(2^size, size)``."""
    return torch.tensor(list(itertools.product([-1.0, 1.0], repeat=size)), dtype=torch.float64)


def cube(matrix: Tensor) -> Tensor:
    """The largest |J d| over all corners of the cube, for ``(batch, m, n)``."""
    images = corners(matrix.shape[2]) @ matrix.mT
    return torch.linalg.vector_norm(images, dim=2).amax(1)


def box(matrix: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The largest |J d| over all corners of the box."""
    points = torch.where(corners(low.shape[1]) > 0, high.unsqueeze(1), low.unsqueeze(1))
    return torch.linalg.vector_norm(points @ matrix.mT, dim=2).amax(1)


def ball(matrix: Tensor, p: float, starts: int = 200, steps: int = 200) -> Tensor:
    """The largest |J d| over the p-ball by ascent from many starts, straight from Hoelder."""
    size = matrix.shape[2]
    generator = torch.Generator().manual_seed(7)
    point = torch.randn(starts, size, generator=generator, dtype=torch.float64)
    point = point.expand(len(matrix), starts, size)
    for _ in range(steps):
        slope = point @ matrix.mT @ matrix
        point = slope.sign() * slope.abs() ** (1 / (p - 1))
        point = point / torch.linalg.vector_norm(point, ord=p, dim=2, keepdim=True)
    return torch.linalg.vector_norm(point @ matrix.mT, dim=2).amax(1)


def diagonal(entries: Tensor, p: float) -> float:
    """The norm of Diag(entries) from p to 2: |entries|_r with 1/r = 1/2 - 1/p, by Hoelder."""
    order = 2.0 if p == math.inf else 1 / (0.5 - 1 / p)
    return float(torch.linalg.vector_norm(entries, ord=order))
