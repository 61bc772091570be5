"""The bound of the averaged map of every example."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from attribound.basics.tables import cell, columns, render
from attribound.results.bound import Bound


@dataclass(frozen=True, eq=False, repr=False)
class SmoothedBound(Bound):
    """How far the noise-averaged attribution of each example can turn in a ball.

    Everything that a :class:`Bound` has is here of the averaged map h, the mean of normalised
    maps over noise: ``degrees`` is an upper bound on the angle between h(x) and h(x + delta),
    ``euclidean`` on their distance (maps have norm at most 1), ``attribution_norm`` a *lower*
    bound on the norm of h(x), ``xi.upper`` on the norm of its Jacobian. All of it, in balls of
    all radii, holds with probability 1 - ``alpha`` over the draws, for each example.

    Attributes:
        shown_degrees: upper bound on the angle between ``map`` and h(x + delta).
        map: the mean of all draws: the picture to look at.
        similarity: cosine of ``map`` with the attribution at x; 0 where that is zero.
        label_share: share of noisy inputs (of the first batch) with the prediction at x; None
            without a classifier.
        draws: of each example.
        sigma: of the noise, in the units of the ball.
        alpha: probability of failure of each example.
    """

    shown_degrees: Tensor = field(kw_only=True)
    map: Tensor = field(kw_only=True)
    similarity: Tensor = field(kw_only=True)
    label_share: Tensor | None = field(kw_only=True)
    draws: int = field(kw_only=True)
    sigma: float = field(kw_only=True)
    alpha: float = field(kw_only=True)

    def __repr__(self) -> str:
        share = ["?"] * len(self) if self.label_share is None else self.label_share.tolist()
        numbers = columns(
            self.target, self.attribution_norm, self.degrees, self.shown_degrees, self.similarity
        )
        rows = list(zip(*numbers, share, self.source, self._statuses(), strict=True))
        title = (
            f"Bound on how far {self.subject} turns, {self.ball.name} ball of radius "
            f"{cell(self.epsilon)}, claim: {self.claim}; noise {cell(self.sigma)}, "
            f"{self.draws} draws, alpha {self.alpha:g}"
        )
        header = ["target", "|h| >=", "degrees", "shown degrees", "similarity", "label share"]
        return render(title, [*header, "by", "status"], rows)
