"""Which values perturbed inputs of a run may have, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def ranges(settings: Mapping[str, Any]) -> str:
    """What the balls of a run are limited to, norm by norm.

    >>> balls = [{"norm": "l2"}, {"norm": "linf", "low": 0.0, "high": 1.0}]
    >>> ranges({"balls": balls})
    'l2: any values in the ball; linf: values in [0, 1]'
    """
    return "; ".join(
        f"{norm}: {limits}"
        for norm, limits in dict.fromkeys(
            (str(ball.get("norm")), _limits(ball.get("low"), ball.get("high")))
            for ball in settings.get("balls", ())
        )
    )


def _limits(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any values in the ball"
    if high is None:
        return f"values from {low:g}"
    if low is None:
        return f"values up to {high:g}"
    return f"values in [{low:g}, {high:g}]"
