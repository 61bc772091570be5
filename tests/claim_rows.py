"""Rows as the benchmark stores them, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from claims.store import BOUNDS

SETTINGS = json.dumps({"seed": 0, "network": "abc", "attacks": {"first": "ascent"}})


def row(
    role: str, first: float, second: float = 0.0, /, *, seconds: float | None = None, **changed
) -> dict[str, object]:
    """An image that both passes moved so far; what is named as a claim is a bound."""
    columns = {name: changed.pop(name) for name in [*changed] if name in BOUNDS.names}
    best = max(first, second)
    base = {
        "network": "mlp-at-b5",
        "role": role,
        "settings": SETTINGS,
        "batch": 0,
        "label": 0,
        "attribution": "saliency",
        "ball": "l2",
        "epsilon": 0.05,
        "features": 784,
        "strongest": {"by": "second" if second > first else "first", "deviation": best},
        "attacks": [
            {"attack": "first", "deviation": first, "seconds": seconds},
            {"attack": "second", "deviation": second, "seconds": seconds and seconds / 4},
        ],
        "bounds": [
            {"claim": claim, "euclidean": bound, "exceeded": best > bound}
            for claim, bound in changed.items()
            if bound is not None
        ],
    }
    return {**base, **columns}


def table(rows: Sequence[dict[str, object]]) -> pa.Table:
    """The rows as images of their own."""
    numbered = [{"sample": i, "place": i, **row} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, BOUNDS)
