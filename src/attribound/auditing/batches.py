"""Samples that are computed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from attribound.balls import Ball, LpBall
from attribound.basics.errors import InputError


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples that are computed together.

    Attributes:
        number: of the batch in its audit.
        indices: of the samples in the data.
        x: ``(batch, *features)``.
        labels: ``(batch,)``.
        ids: what the data calls them; None if nothing.
        free: which features may change, ``(batch, *features)``; None for all.
    """

    number: int
    indices: Tensor
    x: Tensor
    labels: Tensor
    ids: tuple[str, ...] | None = None
    free: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def halves(self) -> Iterator[Batch]:
        """Its first and its second half."""
        middle = len(self) // 2
        for rows in (slice(0, middle), slice(middle, None)):
            ids = None if self.ids is None else self.ids[rows]
            free = None if self.free is None else self.free[rows]
            own = self.x[rows], self.labels[rows]
            yield Batch(self.number, self.indices[rows], *own, ids, free)

    def held(self, ball: Ball, x: Tensor) -> Ball:
        """``ball`` with what may not change frozen, sample by sample.

        Raises:
            InputError: it is a ball that can freeze nothing.
        """
        if self.free is None:
            return ball
        if not isinstance(ball, LpBall):
            raise InputError(
                f"ball {ball.name}",
                expected="a p-ball, in which the padding of texts can be frozen",
                got=f"a {type(ball).__name__}",
                remedy="use l2, linf or lp",
            )
        free = self.free.to(x)
        scale = ball.scaling(x)
        return replace(ball, scale=free if scale is None else scale * free)
