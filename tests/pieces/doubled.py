"""A claim of a user's own: twice the first-order bound, for those who want a margin."""

from __future__ import annotations

from dataclasses import dataclass

import attribound as ab


@dataclass(frozen=True)
class Doubled(ab.Method):
    """The first-order bound times a factor.

    Attributes:
        factor: at least 1.
    """

    factor: float = 2.0

    def bound(self, question: ab.Question) -> ab.Bound:
        """The first-order bound, made larger."""
        first = question.by(ab.FirstOrder)
        source = (f"{self.factor:g} x first-order",) * len(first)
        return ab.restate(first, self.factor * first.euclidean, CLAIM, source, first.products)


CLAIM = ab.register_claim(
    ab.Claim(
        "doubled",
        title="doubled (a margin)",
        order=15,
        promise="First-order times a factor: a rule of thumb.",
        method=Doubled,
        rests_on=("first_order",),
        held="The thumb was thick enough.",
        exceeded="The thumb was too thin.",
        moves=ab.Moves.SCALED,
        colour="#000000",
        symbol="cross",
    )
)
