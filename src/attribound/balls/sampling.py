"""Random draws that depend on the seed and the example, never on the batch around it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribound.basics.tensors import norm, per_example

Draw = Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[np.float64]]


def draws(x: Tensor, seed: int, draw: Draw, stream: int = 0) -> Tensor:
    """``draw`` in the shape of each example, from ``seed`` and the example's own numbers.

    Different streams of one seed are independent.
    """
    rows = []
    for row in x.detach().cpu().double().flatten(1).numpy():
        digest = hashlib.sha256(row.tobytes()).digest()
        generator = np.random.default_rng([seed, stream, int.from_bytes(digest[:8], "little")])
        rows.append(draw(generator, tuple(x.shape[1:])))
    return torch.from_numpy(np.stack(rows)).to(x)


def normal(x: Tensor, seed: int) -> Tensor:
    """Standard normal numbers in the shape of ``x``."""
    return draws(x, seed, lambda generator, shape: generator.standard_normal(shape))


def on_sphere(
    x: Tensor, p: float, seed: int, radius: float = 1.0, free: Tensor | None = None
) -> Tensor:
    """A random point of p-norm ``radius``: a corner for the cube.

    ``free`` of the shape of ``x`` says which features are not zero; default: all.
    """
    if p == math.inf:
        signs = draws(x, seed, lambda generator, shape: generator.choice([-1.0, 1.0], shape))
        return radius * _only(signs, free)
    direction = _only(_generalised_normal(x, p, seed), free)
    return direction * per_example(radius / norm(direction, p), direction)


def in_ball(
    x: Tensor, p: float, seed: int, radius: float = 1.0, free: Tensor | None = None
) -> Tensor:
    """A point drawn uniformly from the volume of the p-ball of that radius.

    ``free`` of the shape of ``x`` says which features are not zero; default: all.
    """
    if p == math.inf:
        drawn = draws(x, seed, lambda generator, shape: generator.uniform(-radius, radius, shape))
        return _only(drawn, free)
    # Radius of a uniform point: u^(1/d), independent of its direction.
    every = torch.ones_like(x) if free is None else free
    size = per_example(every.flatten(1).sum(1).to(x), x)
    share = draws(x, seed, lambda generator, shape: np.full(shape, generator.random()), stream=1)
    return on_sphere(x, p, seed, radius, free) * share ** (1 / size)


def _only(drawn: Tensor, free: Tensor | None) -> Tensor:
    return drawn if free is None else torch.where(free, drawn, 0.0)


def _generalised_normal(x: Tensor, p: float, seed: int) -> Tensor:
    """Density exp(-|z|^p): its direction is the cone measure of the p-sphere."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        size = generator.gamma(1 / p, 1.0, shape) ** (1 / p)
        drawn: npt.NDArray[np.float64] = size * generator.choice([-1.0, 1.0], shape)
        return drawn

    return draws(x, seed, draw)
