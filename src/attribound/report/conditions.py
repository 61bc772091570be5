"""What a reader must know before any number of a run: of what network, within which values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from attribound.auditing.manifest import Manifest
from attribound.balls import Ball
from attribound.report.subjects import copy_of
from attribound.results import YOURS
from attribound.values import from_spec, spec_text

_NAMED = 8  # features whose units are told


def conditions(manifest: Manifest) -> list[str]:
    """What balls are limited to, notes on the model, and whether a smooth copy stands for it."""
    features = [str(each) for each in manifest.data.get("features") or ()]
    found = [ranges(manifest.settings, features), *map(str, manifest.model.get("notes") or ())]
    if manifest.settings.get("smooth") is not None:
        found.append(f"{YOURS} was attacked itself; what was bounded is {_copy(manifest)}")
    return found


def _copy(manifest: Manifest) -> str:
    """Which smooth copy, and how its beta was chosen."""
    copy = f"{copy_of(manifest.settings)}, with softplus for its kinks"
    chosen = manifest.model.get("smooth")
    if not isinstance(chosen, Mapping) or not chosen.get("tried"):
        return f"{copy} (β as it was set)"
    tried = ", ".join(f"{each['beta']:g}: {each['degrees']:.1f}°" for each in chosen["tried"])
    reason = (
        "the smallest that is close enough to your network"
        if chosen.get("close")
        else "the largest: none was close enough to your network"
    )
    return (
        f"{copy} (β chosen by auto, {reason}; median angle between the maps on "
        f"{chosen.get('pilot')} samples at β = {tried})"
    )


def ranges(settings: Mapping[str, Any], features: Sequence[str] = ()) -> str:
    """What the balls of a run are limited to, and what their radii count, each kind once.

    >>> cube = {"kind": "linf", "epsilon": 0.01, "low": 0.0, "high": 1.0}
    >>> ranges({"balls": [{"kind": "l2", "epsilon": 0.1}, cube]})
    'l2: any values in the ball; linf: values in [0, 1]'
    """
    balls = settings.get("balls", ())
    return "; ".join(dict.fromkeys(_described(ball, features) for ball in balls))


def _described(plain: Mapping[str, Any], features: Sequence[str]) -> str:
    try:
        ball = from_spec(plain, Ball)
        return f"{ball.name}: {limits(ball)}{_units(ball, features)}"
    # A class of somebody else, which may be missing here or fail in any way.
    except Exception:
        return spec_text({key: item for key, item in plain.items() if key != "epsilon"})


def _units(ball: Ball, features: Sequence[str]) -> str:
    """What a radius of 1 is of each named feature, if they have units of their own."""
    scale = getattr(ball, "scale", None)
    if not isinstance(scale, Tensor) or scale.shape != (len(features),):
        return ""
    own = [
        f"{unit:.4g} of {name}"
        for unit, name in zip(scale.tolist(), features, strict=True)
        if unit > 0
    ]
    more = f" and units of {len(own) - _NAMED} others" if len(own) > _NAMED else ""
    still = "" if len(own) == len(features) else "; nothing else can change"
    return f", ε = 1 counts {', '.join(own[:_NAMED])}{more}{still}"


def limits(ball: Ball) -> str:
    """Between which values the inputs in a ball are."""
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
