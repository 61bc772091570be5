"""The maps of noisy copies of one example, in chunks of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.attributions.noise import (
    Array,
    Noise,
    Normaliser,
    generator_of,
    noisy,
    normalised,
)
from attribound.basics.errors import ModelError

#: Streams of random numbers: one a batch.
FIRST, SECOND, LATER = 11, 12, 13


@dataclass(frozen=True, eq=False)
class Source:
    """Where the draws of one example come from.

    Attributes:
        attribution: of that example.
        x: ``(1, *features)``.
        target: ``(1,)``.
        noise: around it.
        seed: of all draws.
        chunk: noisy copies that are evaluated together. Always so many: libraries choose kernels
            by the size of a batch, and a map must not depend on the draws beside it.
        advance: told how many draws were made, for progress.
    """

    attribution: Attribution
    x: Tensor
    target: Tensor
    noise: Noise
    seed: int
    chunk: int
    advance: Callable[[int], None] = lambda _: None

    def maps(
        self, draws: int, stream: int, *, predict: bool = False
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Chunks of maps of noisy inputs, ``draws`` in all, and what is predicted of these.

        None in place of predictions that were not asked for, or are of no classifier.
        """
        value = self.attribution.revalue_and_predict if predict else self._alone
        generator = generator_of(self.x, self.seed, stream)
        labels = self.target.expand(self.chunk)
        for start in range(0, draws, self.chunk):
            points = noisy(self.x[0], self.noise.draw(generator, self.chunk))
            maps, predicted = value(points, labels)
            self._refuse_nan(maps)
            kept = min(self.chunk, draws - start)
            self.advance(kept)
            yield maps[:kept], None if predicted is None else predicted[:kept]

    def vectors(self, draws: int, stream: int, kind: Normaliser, k: int | None) -> Iterator[Array]:
        """The same maps made bounded, in float64."""
        for maps, _ in self.maps(draws, stream):
            yield normalised(maps, kind, k).cpu().numpy()

    def _alone(self, points: Tensor, labels: Tensor) -> tuple[Tensor, None]:
        return self.attribution.revalue(points, labels), None

    def _refuse_nan(self, maps: Tensor) -> None:
        if not torch.isfinite(maps).all():
            raise ModelError(
                f"attribution {self.attribution.name}",
                expected="finite scores at noisy inputs, too",
                got="NaN or infinity",
                remedy="use a smaller sigma, or clip inputs inside of the function",
            )
