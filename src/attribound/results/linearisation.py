"""What follows from the linearisation beside the bound: radius and remainder."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attribound.balls import Ball
from attribound.basics.tables import columns, render
from attribound.basics.tensors import ratio
from attribound.results.claims import Claim, Status
from attribound.results.subject import YOURS


@dataclass(frozen=True, eq=False)
class MaxEpsilon:
    """The largest radius at which the bound stays within a threshold, per example."""

    epsilon: Tensor
    ball: Ball
    threshold: str
    target: Tensor
    claim: Claim
    source: tuple[str, ...]
    status: tuple[Status, ...]
    subject: str = YOURS

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.target, self.epsilon), self.source, self.status, strict=True))
        title = (
            f"Largest {self.ball.name} radius with {self.threshold} for {self.subject}, "
            f"claim: {self.claim}"
        )
        return render(title, ["target", "epsilon", "by", "status"], rows)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What first order leaves out at one perturbation, per example.

    ``eta`` is the norm of g(x + delta) - g(x) - J delta, to be read beside
    ``deviation``, the norm of g(x + delta) - g(x).
    """

    eta: Tensor
    deviation: Tensor

    @property
    def relative(self) -> Tensor:
        """``eta / deviation``: zero for a linear attribution."""
        return ratio(self.eta, self.deviation)

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.eta, self.deviation, self.relative), strict=True))
        return render("Remainder of the linearisation", ["eta", "deviation", "relative"], rows)
