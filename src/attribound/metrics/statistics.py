"""Shares and means that know from how many examples they come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from attribound.basics.errors import InputError


@dataclass(frozen=True)
class Share:
    """``count`` of ``n`` examples.

    >>> Share(9, 10).value
    0.9
    """

    count: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.n or self.n < 1:
            raise InputError(
                "share",
                expected="a count from 0 to n, of at least one example",
                got=f"{self.count} of {self.n}",
                remedy="count each example once",
            )

    @property
    def value(self) -> float:
        """The share, from 0 to 1."""
        return self.count / self.n

    @property
    def standard_error(self) -> float:
        """Of the share as an estimate for all examples there could be; never zero."""
        # Two successes and two failures more (Agresti and Coull): 10 of 10 is no certainty.
        share, n = (self.count + 2) / (self.n + 4), self.n + 4
        return math.sqrt(share * (1 - share) / n)


@dataclass(frozen=True)
class Mean:
    """The mean of ``n`` numbers and their standard deviation around it."""

    value: float
    deviation: float
    n: int

    def __post_init__(self) -> None:
        finite = math.isfinite(self.value) and math.isfinite(self.deviation)
        if not finite or self.deviation < 0 or self.n < 1:
            raise InputError(
                "mean",
                expected="finite numbers, a deviation of 0 or more, and at least one example",
                got=f"{self.value} with deviation {self.deviation} of {self.n}",
                remedy="leave out examples without a value",
            )

    @classmethod
    def of(cls, values: Tensor) -> Mean:
        """The mean of all entries of ``values``."""
        exact = values.double()
        return cls(exact.mean().item(), exact.std(correction=0).item(), exact.numel())

    @property
    def standard_error(self) -> float:
        """Of the mean; one example says nothing of it, so infinite."""
        return math.inf if self.n == 1 else self.deviation / math.sqrt(self.n - 1)
