"""Perturbation balls: the set of perturbations an attacker may use."""

from attribound.balls.lp import (
    L2Ball,
    LinfBall,
    LpBall,
    check_number,
    check_order,
    project,
    unit_maximiser,
)

__all__ = [
    "L2Ball",
    "LinfBall",
    "LpBall",
    "check_number",
    "check_order",
    "project",
    "unit_maximiser",
]
