"""Random draws that depend on the seed and the example, never on the batch around it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribound.balls import LpBall
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


def on_sphere(x: Tensor, ball: LpBall, seed: int) -> Tensor:
    """A random perturbation of norm epsilon: a corner for the cube."""
    if ball.p == math.inf:
        signs = draws(x, seed, lambda generator, shape: generator.choice([-1.0, 1.0], shape))
        return ball.epsilon * signs
    direction = _generalised_normal(x, ball.p, seed)
    return direction * per_example(ball.epsilon / norm(direction, ball.p), direction)


def in_ball(x: Tensor, ball: LpBall, seed: int) -> Tensor:
    """A perturbation drawn uniformly from the volume of the ball."""
    if ball.p == math.inf:
        return draws(
            x, seed, lambda generator, shape: generator.uniform(-ball.epsilon, ball.epsilon, shape)
        )
    # Radius of a uniform point: u^(1/d), independent of its direction.
    size = x[0].numel()
    radius = draws(x, seed, lambda generator, shape: np.full(shape, generator.random()), stream=1)
    return on_sphere(x, ball, seed) * radius ** (1 / size)


def _generalised_normal(x: Tensor, p: float, seed: int) -> Tensor:
    """Density exp(-|z|^p): its direction is the cone measure of the p-sphere."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        size = generator.gamma(1 / p, 1.0, shape) ** (1 / p)
        drawn: npt.NDArray[np.float64] = size * generator.choice([-1.0, 1.0], shape)
        return drawn

    return draws(x, seed, draw)
