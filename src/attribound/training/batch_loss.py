"""A whole step as the forward of one module, so that any strategy of Fabric can wrap it."""

from __future__ import annotations

from torch import Tensor, nn

from attribound.balls import LpBall
from attribound.training.objective import Objective
from attribound.training.step import Step


class BatchLoss(nn.Module):
    """Attack and losses of ``objective`` on ``model``.

    Data-parallel wrappers reduce gradients once per forward and backward of what they
    wrap. An objective runs the network many times, also for gradients with respect to
    the input: all of that is inside one forward of this module.
    """

    def __init__(self, model: nn.Module, objective: Objective, ball: LpBall) -> None:
        super().__init__()
        self.model, self.objective, self.ball = model, objective, ball

    def at(self, x: Tensor, y: Tensor, epsilon: float, seed: int) -> Step:
        """The step an objective sees."""
        return Step(self.model, x, y, self.ball.at_radius(epsilon), seed)

    def forward(self, x: Tensor, y: Tensor, epsilon: float, seed: int) -> dict[str, Tensor]:
        """``total``, ``attacked`` and, as ``term:NAME``, the terms."""
        losses = self.objective(self.at(x, y, epsilon, seed))
        terms = {f"term:{name}": value for name, value in losses.terms.items()}
        return {"total": losses.total, "attacked": losses.attacked, **terms}
