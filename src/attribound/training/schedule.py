"""Learning rates as functions of the step: there is no state to store."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from attribound.basics.errors import InputError
from attribound.basics.numbers import check_fraction, check_positive
from attribound.values import Value, register


class Schedule(Value, ABC):
    """What the learning rate of the optimiser is multiplied with at each step."""

    @abstractmethod
    def factor(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step of ``steps``, ``per_epoch`` of which make an epoch."""


@register("constant")
@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate of the optimiser throughout."""

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """1."""
        return 1.0


@register("cosine")
@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the learning rate of the optimiser down to zero after the last step."""

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """(1 + cos(pi step / steps)) / 2."""
        return (1 + math.cos(math.pi * step / steps)) / 2


@register("one_cycle")
@dataclass(frozen=True)
class OneCycle(Schedule):
    """Up from a small learning rate to the optimiser's, then down to nearly zero, by cosines.

    Attributes:
        rise: the fraction of all steps that go up.
        start: the first learning rate as a fraction of the largest.
        end: the last learning rate as a fraction of the first.
    """

    rise: float = 0.3
    start: float = 0.04
    end: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse what is no fraction."""
        for name in ("rise", "start", "end"):
            check_fraction(name, getattr(self, name))

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """As PyTorch's OneCycleLR without momentum."""
        top, last = self.rise * steps - 1, steps - 1
        if step <= top:
            return _cosine(self.start, 1.0, step / top if top > 0 else 1.0)
        return _cosine(1.0, self.start * self.end, (step - top) / (last - top))


@register("multistep")
@dataclass(frozen=True)
class MultiStep(Schedule):
    """The learning rate times ``gamma`` from each milestone on.

    Attributes:
        milestones: epochs after which the rate falls.
        gamma: by how much it falls.
    """

    milestones: tuple[float, ...] = ()
    gamma: float = 0.1

    def __post_init__(self) -> None:
        """Refuse milestones out of order."""
        check_positive("gamma", self.gamma, "use e.g. 0.1")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise InputError(
                "milestones",
                expected="epochs in rising order",
                got=repr(list(self.milestones)),
                remedy="use e.g. milestones = [75, 90]",
            )

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """``gamma`` to the power of the milestones passed."""
        passed = sum(step >= milestone * per_epoch for milestone in self.milestones)
        return float(self.gamma**passed)


def _cosine(start: float, end: float, way: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * way)) / 2
