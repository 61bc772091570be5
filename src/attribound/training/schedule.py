"""Learning rates as functions of the step: there is no state to store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from attribound.basics.errors import InputError
from attribound.training.checks import check_positive
from attribound.training.settings import check_fraction


@dataclass(frozen=True)
class Constant:
    """The learning rate of the optimiser throughout."""

    name: Literal["constant"] = "constant"

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """1."""
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the learning rate of the optimiser down to zero after the last step."""

    name: Literal["cosine"] = "cosine"

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """(1 + cos(pi step / steps)) / 2."""
        return (1 + math.cos(math.pi * step / steps)) / 2


@dataclass(frozen=True)
class OneCycle:
    """Up from a small learning rate to the optimiser's, then down to nearly zero, by cosines.

    Attributes:
        rise: the fraction of all steps that go up.
        start: the first learning rate as a fraction of the largest.
        end: the last learning rate as a fraction of the first.
    """

    name: Literal["one-cycle"] = "one-cycle"
    rise: float = 0.3
    start: float = 0.04
    end: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse what is no fraction."""
        for name in ("rise", "start", "end"):
            check_fraction(f"schedule.{name}", getattr(self, name))

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """As PyTorch's OneCycleLR without momentum."""
        top, last = self.rise * steps - 1, steps - 1
        if step <= top:
            return _cosine(self.start, 1.0, step / top if top > 0 else 1.0)
        return _cosine(1.0, self.start * self.end, (step - top) / (last - top))


@dataclass(frozen=True)
class MultiStep:
    """The learning rate times ``gamma`` from each milestone on.

    Attributes:
        milestones: epochs after which the rate falls.
        gamma: by how much it falls.
    """

    name: Literal["multistep"] = "multistep"
    milestones: tuple[float, ...] = ()
    gamma: float = 0.1

    def __post_init__(self) -> None:
        """Refuse milestones out of order."""
        check_positive("schedule.gamma", self.gamma, "use e.g. 0.1")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise InputError(
                "schedule.milestones",
                expected="epochs in rising order",
                got=repr(list(self.milestones)),
                remedy="use e.g. milestones = [75, 90]",
            )

    def factor(self, step: int, steps: int, per_epoch: int) -> float:  # noqa: ARG002
        """``gamma`` to the power of the milestones passed."""
        passed = sum(step >= milestone * per_epoch for milestone in self.milestones)
        return float(self.gamma**passed)


Schedule = Constant | Cosine | OneCycle | MultiStep


def _cosine(start: float, end: float, way: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * way)) / 2
