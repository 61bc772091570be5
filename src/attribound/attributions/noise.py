"""Noise around an input: drawn in float64, added in float64, rounded once."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.numbers import check_count, is_count, is_finite

NoiseKind = Literal["gaussian", "uniform"]
Normaliser = Literal["unit", "sign", "top"]
Array = npt.NDArray[np.float64]
#: As many as integrated gradients may have steps.
MOST_DRAWS = 2**20


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise of one example: ``sigma`` times standard noise, feature by feature.

    Standard noise is Gaussian, or uniform in the Euclidean ball of the same second moment,
    of radius ``sqrt(free + 2)`` for ``free`` features that are not frozen.

    Attributes:
        sigma: of each feature, ``(features,)``; 0 freezes it.
        kind: ``gaussian`` or ``uniform``.
    """

    sigma: Array
    kind: NoiseKind = "gaussian"

    @property
    def free(self) -> int:
        """How many features have noise."""
        return int((self.sigma > 0).sum())

    def draw(self, generator: np.random.Generator, rows: int) -> Array:
        """So many draws, ``(rows, features)``."""
        drawn = generator.standard_normal((rows, self.sigma.size))
        if self.kind == "uniform":
            drawn[:, self.sigma == 0] = 0.0
            length = np.sqrt((drawn**2).sum(1, keepdims=True))
            share = generator.random((rows, 1)) ** (1 / self.free)
            drawn *= share * math.sqrt(self.free + 2) / length
        drawn *= self.sigma
        return drawn


def check_draws(samples: int, sigma: float, remedy: str) -> None:
    """Refuse draws around an example that are no number of them, or more than one batch holds."""
    check_count("samples", samples, remedy)
    if samples > MOST_DRAWS:
        got = f"{samples:,}"
        raise InputError("samples", expected=f"at most {MOST_DRAWS:,}", got=got, remedy=remedy)
    if not (is_finite(sigma) and sigma >= 0):
        expected = "a finite number, 0 or more"
        raise InputError("sigma", expected=expected, got=repr(sigma), remedy=remedy)


def generator_of(x: Tensor, seed: int, stream: int) -> np.random.Generator:
    """Draws that depend on the seed, the stream and the numbers of the example, on nothing else."""
    row = x.detach().cpu().double().flatten().numpy()
    digest = hashlib.sha256(row.tobytes()).digest()
    return np.random.default_rng([seed, stream, int.from_bytes(digest[:8], "little")])


def noisy(x: Tensor, noise: Array) -> Tensor:
    """``x + noise`` of one example ``x``, a row for each draw.

    The sum is made in float64 and rounded once to the dtype of ``x``. Only so is what is
    computed a function of the real number x + noise; noise that is added in float32 is not, and
    no statement about averages over noise holds for it.
    """
    exact = x.detach().cpu().double().flatten().numpy()
    points = torch.from_numpy(exact + noise).to(x.dtype)
    return points.view(len(noise), *x.shape).to(x.device)


def normalised(maps: Tensor, kind: Normaliser, k: int | None = None) -> Tensor:
    """Maps ``(rows, *scores)`` as rows of Euclidean norm at most 1, ``(rows, scores)``.

    ``unit``: divided by their norm; a zero map stays zero. ``sign``: signs, divided by the root
    of their number. ``top``: 1 at the ``k`` largest absolute scores, divided by the root of k.
    """
    flat = maps.detach().double().flatten(1)
    if kind == "unit":
        # By the largest score first: squares of tiny gradients vanish.
        largest = flat.abs().amax(1, keepdim=True)
        flat = flat / torch.where(largest > 0, largest, 1.0)
        length = flat.norm(dim=1, keepdim=True)
        return flat / torch.where(length > 0, length, 1.0)
    if kind == "sign":
        return flat.sign() / math.sqrt(flat.shape[1])
    return tops(flat, k) / math.sqrt(top_count(k, flat.shape[1]))


def tops(flat: Tensor, k: int | None) -> Tensor:
    """1 at the ``k`` largest absolute scores of each row, else 0; of equals the first."""
    order = flat.abs().sort(dim=1, descending=True, stable=True).indices
    member = torch.zeros_like(flat)
    return member.scatter_(1, order[:, : top_count(k, flat.shape[1])], 1.0)


def top_count(k: int | None, scores: int) -> int:
    """``k`` itself, or a tenth of the scores, at least one."""
    count = max(1, scores // 10) if k is None else k
    if not is_count(count) or count > scores:
        raise InputError(
            "k",
            expected=f"a whole number from 1 to {scores}, the number of scores",
            got=repr(k),
            remedy="leave it out for a tenth of the scores",
        )
    return count
