"""One batch of training, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from attribound.balls import LpBall


@dataclass(frozen=True, eq=False)
class Step:
    """What an objective sees of one step of training.

    Attributes:
        model: in train mode; objectives switch to eval mode and back where they must.
        x: inputs ``(batch, *features)``.
        y: their labels ``(batch,)``.
        ball: what the inner attack may do at this step, range of values included.
        seed: of every random draw of this step; another one at every step.
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    ball: LpBall
    seed: int
