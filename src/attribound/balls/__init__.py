"""Sets of perturbations, and what bounds and attacks ask of them."""

from attribound.balls.ball import (
    Ball,
    Enclosure,
    check_ball,
    check_number,
    check_order,
    enclosure,
)
from attribound.balls.geometry import project, unit_maximiser
from attribound.balls.lp import L2Ball, LinfBall, LpBall

__all__ = [
    "Ball",
    "Enclosure",
    "L2Ball",
    "LinfBall",
    "LpBall",
    "check_ball",
    "check_number",
    "check_order",
    "enclosure",
    "project",
    "unit_maximiser",
]
