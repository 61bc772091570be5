"""What a reader must know before any number of a run: of what network, within which values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attribound.auditing.manifest import Manifest
from attribound.balls import Ball
from attribound.values import from_spec, spec_text


def conditions(manifest: Manifest) -> list[str]:
    """What balls are limited to, notes on the model, and whether a smooth copy stands for it."""
    smooth = manifest.settings.get("smooth")
    found = [ranges(manifest.settings), *map(str, manifest.model.get("notes") or ())]
    if smooth is not None:
        found.append(f"bounds and attacks are of a smooth copy, softplus with beta {smooth:g}")
    return found


def ranges(settings: Mapping[str, Any]) -> str:
    """What the balls of a run are limited to, each kind once.

    >>> cube = {"kind": "linf", "epsilon": 0.01, "low": 0.0, "high": 1.0}
    >>> ranges({"balls": [{"kind": "l2", "epsilon": 0.1}, cube]})
    'l2: any values in the ball; linf: values in [0, 1]'
    """
    return "; ".join(dict.fromkeys(_described(ball) for ball in settings.get("balls", ())))


def _described(plain: Mapping[str, Any]) -> str:
    try:
        ball = from_spec(plain, Ball)
        return f"{ball.name}: {_limits(ball)}"
    # A class of somebody else, which may be missing here or fail in any way.
    except Exception:
        return spec_text({key: item for key, item in plain.items() if key != "epsilon"})


def _limits(ball: Ball) -> str:
    if not ball.limited:
        return "any values in the ball"
    low, high = (_end(ball, name, most) for name, most in (("low", False), ("high", True)))
    if low and high:
        return f"values in [{low}, {high}]"
    if low or high:
        return f"values from {low}" if low else f"values up to {high}"
    return "values within limits of its own"


def _end(ball: Ball, name: str, most: bool) -> str:
    """A limit of values, the outermost if features have their own; empty if there is none."""
    end = getattr(ball, name, None)
    if isinstance(end, Tensor):
        end = (end.max() if most else end.min()).item()
    return "" if end is None else f"{end:g}"
