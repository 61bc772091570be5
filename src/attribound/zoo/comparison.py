"""Two measurements of one model side by side."""

from __future__ import annotations

from dataclasses import dataclass

from attribound.metrics import Mean, Share
from attribound.zoo.record import Measured

#: How many standard errors two measurements may be apart.
TOLERANCE = 2.0


@dataclass(frozen=True)
class Difference:
    """One number on the card and measured again; ``error`` is the larger standard error."""

    what: str
    before: float
    after: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether they are at most two standard errors apart."""
        return abs(self.after - self.before) <= TOLERANCE * self.error


def numbers(measured: Measured) -> dict[str, Share | Mean]:
    """Every number of a measurement by its name."""
    own: dict[str, Share | Mean] = {"clean": measured.clean, "attacked": measured.attacked}
    alike = measured.similarity
    if alike is not None:
        own |= {
            "top_k": alike.top_k,
            "kendall": alike.kendall,
            "pearson": alike.pearson,
            "cosine": alike.cosine,
        }
    return own


def compare(before: Measured, after: Measured) -> tuple[Difference, ...]:
    """The numbers that both have; all they differ by should be images and rounding."""
    old, new = numbers(before), numbers(after)
    return tuple(
        Difference(
            name,
            old[name].value,
            new[name].value,
            max(old[name].standard_error, new[name].standard_error),
        )
        for name in old
        if name in new
    )
