"""What the paper's tables say, as printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

#: By table, then ``data/norm/epsilon/attribution``, then model, then column. Per cents of
#: Tables 3, 9 and 10 are ``exceeded``. Tests read all of it out of the paper again.
FILE = Path(__file__).with_name("paper_values.json")
#: Radii as printed, by data and norm. Two are at odds with the paper's own numbers, which are
#: linear in the radius: l2 0.2 (0.15 by T_e, 0.2 by T_c) and l2 0.3 of CIFAR-10 (0.5).
RADII: dict[str, dict[str, tuple[str, ...]]] = {
    "mnist": {"l2": ("0.05", "0.1", "0.2"), "linf": ("0.01", "0.03", "0.05")},
    "fashion-mnist": {"l2": ("0.05", "0.1", "0.2"), "linf": ("0.01", "0.03", "0.05")},
    "cifar10": {"l2": ("0.1", "0.2", "0.3"), "linf": ("4/255", "8/255", "0.1")},
    "flowers17": {"l2": ("0.1",), "linf": ("8/255",)},
    "imagenet": {"l2": ("0.1",), "linf": ("8/255",)},
}


@cache
def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def printed(table: str, place: str, model: str) -> Mapping[str, float]:
    """The numbers of one model at ``data/norm/epsilon/attribution``; none if it has none."""
    found: Mapping[str, float] = _stored()[table].get(place, {}).get(model, {})
    return found


def radius(text: str) -> float:
    """A radius as it is printed.

    >>> radius("4/255") == 4 / 255
    True
    """
    return float(Fraction(text))
