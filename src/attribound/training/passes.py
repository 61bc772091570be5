"""What a step of training costs, in passes of the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passes:
    """How often the model is run for one example.

    Attributes:
        first: forward, then backward to the input or to the parameters.
        second: forward, gradient with respect to the input, then backward through it.
        forward: forward alone.
    """

    first: int = 0
    second: int = 0
    forward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(
            self.first + other.first, self.second + other.second, self.forward + other.forward
        )

    def __mul__(self, times: int) -> Passes:
        return Passes(self.first * times, self.second * times, self.forward * times)
