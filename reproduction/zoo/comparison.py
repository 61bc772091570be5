"""Two measurements of one model side by side."""

from __future__ import annotations

from dataclasses import dataclass

from attribound.zoo import Measurement

#: How many standard errors two measurements may be apart.
TOLERANCE = 2.0


@dataclass(frozen=True)
class Remeasured:
    """One number on the card and measured again; ``error`` is the larger standard error."""

    what: str
    before: float
    after: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether they are at most two standard errors apart."""
        return abs(self.after - self.before) <= TOLERANCE * self.error


def compare(before: Measurement, after: Measurement) -> tuple[Remeasured, ...]:
    """The numbers that both have; all they differ by should be images and rounding."""
    old, new = before.numbers, after.numbers
    return tuple(
        Remeasured(
            name,
            old[name].value,
            new[name].value,
            max(old[name].standard_error, new[name].standard_error),
        )
        for name in old
        if name in new
    )
