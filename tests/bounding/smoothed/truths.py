"""Random maps whose average and covariance are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attribound.attributions.noise import Array
from attribound.bounding.smoothed.batches import Moments, Pilot, SecondBatch
from attribound.bounding.smoothed.parts import KnownAverage, known

SIZE = 20


@dataclass(frozen=True, eq=False)
class Truth:
    """How to draw maps, their mean and their covariance."""

    draw: Callable[[np.random.Generator, int], Array]
    mean: Array
    covariance: Array


def _discrete(vectors: Array, shares: Array) -> Truth:
    mean = shares @ vectors
    centred = vectors - mean

    def draw(generator: np.random.Generator, rows: int) -> Array:
        return vectors[generator.choice(len(vectors), rows, p=shares)]

    return Truth(draw, mean, (centred.T * shares) @ centred)


def rare(share: float) -> Truth:
    """e1, but -e1 or e2 with a small probability: a jump that a sample may not see."""
    one = np.eye(SIZE)
    vectors = np.stack([one[0], -one[0], one[1]])
    return _discrete(vectors, np.array([1 - share, share / 2, share / 2]))


def two() -> Truth:
    """Two vectors, each half of the time: rank one."""
    one = np.eye(SIZE)
    return _discrete(np.stack([one[0], 0.6 * one[0] + 0.8 * one[1]]), np.array([0.5, 0.5]))


def sphere(length: float) -> Truth:
    """``length`` along e1, the rest in a random direction across it."""

    def draw(generator: np.random.Generator, rows: int) -> Array:
        across = generator.standard_normal((rows, SIZE))
        across[:, 0] = 0
        across *= np.sqrt(1 - length**2) / np.linalg.norm(across, axis=1, keepdims=True)
        across[:, 0] = length
        return across

    side = np.eye(SIZE) * (1 - length**2) / (SIZE - 1)
    side[0, 0] = 0
    return Truth(draw, length * np.eye(SIZE)[0], side)


TRUTHS = {
    "rare .002": rare(0.002),
    "rare .01": rare(0.01),
    "sphere .3": sphere(0.3),
    "sphere .9": sphere(0.9),
    "two vectors": two(),
}


def sampled(
    truth: Truth, generator: np.random.Generator, draws: int, alpha: float
) -> tuple[Pilot, Moments, KnownAverage]:
    """What a sample says of it."""
    pilot = Pilot(SIZE)
    pilot.add(truth.draw(generator, draws // 5))
    second = SecondBatch(pilot.centre)
    second.add(truth.draw(generator, draws - draws // 5))
    found = second.summary()
    return pilot, found, known(pilot, found, alpha)


def misses(truth: Truth, pilot: Pilot, said: KnownAverage) -> dict[str, bool]:
    """Which of the six statements are wrong."""
    length = np.linalg.norm(pilot.centre)
    v = pilot.centre / length
    across = np.eye(SIZE) - np.outer(v, v)
    h, spread = truth.mean, truth.covariance
    slack = 1e-12
    return {
        "length": said.length > v @ h + slack,
        "deviation": said.deviation**2 < np.linalg.eigvalsh(spread)[-1] - slack,
        "side_deviation": said.side_deviation**2
        < np.linalg.eigvalsh(across @ spread @ across)[-1] - slack,
        "along_deviation": said.along_deviation**2 < v @ spread @ v - slack,
        "side": said.side < np.linalg.norm(across @ h) - slack,
        "distance": said.distance < np.linalg.norm(said.shown - h) - slack,
    }
