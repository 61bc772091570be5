"""What a reader must know before any number of a run: of what network, within which values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attribound.auditing.manifest import Manifest


def conditions(manifest: Manifest) -> list[str]:
    """What balls are limited to, notes on the model, and whether a smooth copy stands for it."""
    smooth = manifest.settings.get("smooth")
    found = [ranges(manifest.settings), *map(str, manifest.model.get("notes") or ())]
    if smooth is not None:
        found.append(f"bounds and attacks are of a smooth copy, softplus with beta {smooth:g}")
    return found


def ranges(settings: Mapping[str, Any]) -> str:
    """What the balls of a run are limited to, norm by norm.

    >>> balls = [{"norm": "l2"}, {"norm": "linf", "low": 0.0, "high": 1.0}]
    >>> ranges({"balls": balls})
    'l2: any values in the ball; linf: values in [0, 1]'
    """
    each = dict.fromkeys(
        (str(ball.get("norm")), _limits(ball.get("low"), ball.get("high")))
        for ball in settings.get("balls", ())
    )
    return "; ".join(f"{norm}: {limits}" for norm, limits in each)


def _limits(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any values in the ball"
    if high is None:
        return f"values from {low:g}"
    if low is None:
        return f"values up to {high:g}"
    return f"values in [{low:g}, {high:g}]"
