"""The mean of normalised maps over fixed noise: of what certificates by noise speak."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attribound.attributions.base import Attribution, Linearization
from attribound.attributions.noise import Array, Noise, Normaliser, noisy, normalised
from attribound.attributions.wrapped import Wrapped
from attribound.basics.errors import InputError, ModelError
from attribound.basics.tensors import dot, norm, per_example
from attribound.operators import LinearOperator
from attribound.results import averaged_title
from attribound.values import register

_AT_ONCE = 40  # noisy inputs


@register("averaged")
@dataclass(frozen=True, eq=False)
class Averaged(Wrapped):
    """The mean of normalised maps of noisy copies of the input.

    The noise is drawn once from the seed and is the same for every input: differences between
    inputs are not those of the noise, and the mean is a deterministic function. It is the average
    over all noise only up to an error of about ``1 / sqrt(draws)``.

    Attributes:
        base: the attribution that is averaged.
        sigma: of the noise: a number, one a feature, or one a feature and example.
        draws: noisy copies of each example.
        normaliser, k: how maps are made bounded; see ``ab.Smoothed``.
        seed: of the noise.
    """

    sigma: float | Tensor = 0.25
    draws: int = 64
    normaliser: Normaliser = "unit"
    k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse noise that is none."""
        if self.draws < 1 or not (torch.as_tensor(self.sigma) >= 0).all():
            raise InputError(
                "Averaged",
                expected="draws >= 1 and sigma >= 0",
                got=f"draws={self.draws!r}, sigma={self.sigma!r}",
                remedy="use e.g. draws=64, sigma=0.25",
            )

    @property
    def subject(self) -> str:
        """The averaged map, which is not the plain one."""
        return averaged_title(self.base.subject)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        return max(1, self.base.examples_at_once(x) // self.draws)

    def rows(self, x: Tensor, rows: slice | Tensor) -> Attribution:
        """The same for some rows of the batch ``x``."""
        sigma = self.sigma
        if isinstance(sigma, Tensor) and sigma.shape == x.shape:
            sigma = sigma[rows]
        return replace(self, base=self.base.rows(x, rows), sigma=sigma)

    def steps_needed(self, x: Tensor, target: Tensor, scores: Tensor) -> Tensor | None:  # noqa: ARG002
        """Unknown: what the base needs at noisy inputs is not what it needs at x."""
        return None

    def vectors(self, x: Tensor, target: Tensor) -> Iterator[tuple[Array, Tensor]]:
        """Chunks of noise and normalised maps ``(rows, scores)`` of one example ``(1, ...)``."""
        noise = Noise(self._sigmas(x)[0])
        generator = np.random.default_rng([self.seed, 29])
        for start in range(0, self.draws, _AT_ONCE):
            drawn = noise.draw(generator, min(_AT_ONCE, self.draws - start))
            maps = self.base.revalue(noisy(x[0], drawn), target.expand(len(drawn)))
            yield drawn, normalised(maps, self.normaliser, self.k)

    def _sigmas(self, x: Tensor) -> Array:
        """Of each example, ``(batch, features)``."""
        sigma = torch.as_tensor(self.sigma, dtype=torch.float64).cpu()
        spread: Array = sigma.expand(x.shape).flatten(1).numpy()
        return spread

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        found = []
        for i in range(len(x)):
            row = slice(i, i + 1)
            part = self.rows(x, row)
            assert isinstance(part, Averaged)
            total = sum(maps.sum(0) for _, maps in part.vectors(x[row], target[row]))
            assert isinstance(total, Tensor)
            found.append(total / self.draws)
        shape = self.base.revalue(x[:1], target[:1]).shape[1:]
        return torch.stack(found).to(x).view(len(x), *shape)

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        if self.normaliser != "unit":
            raise ModelError(
                f"attribution {self.name}",
                expected="the normaliser unit, which has slopes",
                got=self.normaliser,
                remedy="attack without slopes, or normalise by the norm",
            )
        generator = np.random.default_rng([self.seed, 29])
        standard = generator.standard_normal((self.draws, x[0].numel()))
        points = torch.cat(
            [noisy(x[i], standard * sigma) for i, sigma in enumerate(self._sigmas(x))]
        )
        labels = target.repeat_interleave(self.draws)
        inner = self.base.relinearize(points, labels)
        jacobian = AveragedJacobian(x, inner, self.draws)
        return Linearization(jacobian.mean, jacobian, target)


class AveragedJacobian(LinearOperator):
    """The mean over draws of ``(I - u u^T) J / |g|``, u the unit vector of the draw's map g."""

    def __init__(self, x: Tensor, inner: Linearization, draws: int) -> None:
        self._x, self._inner, self._draws = x, inner, draws
        self.points = draws
        length = norm(inner.value)
        self._length = torch.where(length > 0, length, math.inf)
        self._unit = inner.value / per_example(self._length, inner.value)

    @property
    def mean(self) -> Tensor:
        """The averaged map."""
        return self._averaged(self._unit)

    @property
    def domain(self) -> Tensor:
        """The points of linearisation."""
        return self._x

    @property
    def range(self) -> Tensor:
        """The averaged maps there."""
        return self.mean

    def _averaged(self, each: Tensor) -> Tensor:
        """The mean over the draws of every example."""
        return each.view(-1, self._draws, *each.shape[1:]).mean(1)

    def _across(self, w: Tensor) -> Tensor:
        along = per_example(dot(self._unit, w), w) * self._unit
        return (w - along) / per_example(self._length, w)

    def matvec(self, v: Tensor) -> Tensor:
        """``J v``, per example."""
        moved = self._inner.jacobian.matvec(v.repeat_interleave(self._draws, dim=0))
        return self._averaged(self._across(moved))

    def rmatvec(self, u: Tensor) -> Tensor:
        """``J^T u``, per example."""
        pulled = self._across(u.repeat_interleave(self._draws, dim=0))
        back = self._inner.jacobian.rmatvec(pulled)
        return self._averaged(back)

    def select(self, index: Tensor) -> LinearOperator:
        """The operator of the examples ``index``."""
        draws = torch.arange(self._draws, device=index.device)
        every = (index[:, None] * self._draws + draws).flatten()
        inner = Linearization(
            self._inner.value[every], self._inner.jacobian.select(every), self._inner.target[every]
        )
        return AveragedJacobian(self._x[index], inner, self._draws)
