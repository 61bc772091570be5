"""How far a ball reaches, measured in standard deviations of the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from attribound.attributions.noise import Array
from attribound.balls import Ball, enclosure


@dataclass(frozen=True, eq=False)
class Reach:
    """Noise for a ball around one example, and the largest shift in it.

    Attributes:
        size: standard deviation of the noise in the units of the ball.
        sigma: of each feature, ``size`` times its unit; 0 for what can't change.
        shift: ``sqrt(sum (delta_j / sigma_j)^2)`` is at most this for every delta of the ball.
        remark: what is to be said of the ball, after the name of a proof.
    """

    size: float
    sigma: Array
    shift: float
    remark: str


def reach(ball: Ball, x: Tensor, sigma: float) -> Reach:
    """Of a ball around one example ``x``, ``(1, *features)``; what lies in no p-ball is refused.

    p up to 2: the p-ball lies in the l2 ball of the same radius, so that the shift is epsilon
    over sigma. p > 2: in the l2 ball of d^(1/2 - 1/p) times the radius, which is sqrt(d) for the
    cube: weak for images, where 8 / 255 becomes 1.7. Limits on values are not made use of: what
    holds in the ball holds in its part.
    """
    around = enclosure(ball, x)
    unit = np.ones(x[0].numel())
    if around.scale is not None:
        unit = around.scale[0].detach().cpu().double().flatten().numpy()
    free = int((unit > 0).sum())
    wider = max(1.0, free ** (0.5 - 1 / around.p))
    remark = "" if around.p <= 2 else f", in the l2 ball of {wider:.3g} times the radius around it"
    return Reach(sigma, sigma * unit, around.epsilon * wider / sigma * (1 + 1e-12), remark)
