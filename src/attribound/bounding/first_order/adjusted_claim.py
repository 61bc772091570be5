"""The claim *adjusted*: the first-order bound, raised to what was seen at two points."""

from __future__ import annotations

from dataclasses import dataclass

from attribound.bounding.first_order.first_order import FirstOrder
from attribound.bounding.method import Method, Question
from attribound.bounding.restate import restate
from attribound.results import Bound, Claim, register_claim


@dataclass(frozen=True)
class Adjusted(Method):
    """T'_e of the first-order bound: nothing more is computed."""

    def bound(self, question: Question) -> Bound:
        """The first-order bound with T'_e in the place of T_e."""
        first = question.by(FirstOrder)
        return restate(first, first.adjusted, ADJUSTED, first.source, first.products)


ADJUSTED = register_claim(
    Claim(
        "adjusted",
        title="adjusted",
        order=20,
        promise="First-order, raised to the deviation seen at two points of the ball; empirical, "
        "a direct attack can exceed it.",
        method=Adjusted,
        rests_on=("first_order",),
        held="That is evidence, no proof.",
        exceeded="Here it is no guarantee: two points of a ball do not show its worst.",
        colour="#cc79a7",
        symbol="diamond",
    )
)
