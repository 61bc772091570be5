"""Runs of a plan that were never made: tables with known numbers, models that are missing."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa

from attribound.auditing.rows import MAPS_SCHEMA, SCHEMA, table
from paper_made import attributions_of, balls_of
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.records import MEASUREMENTS
from reproduction.paper.runs import Runs

MISSING = "not there yet: make zoo"


class SyntheticRuns(Runs):
    """Those that are given; no others are there."""

    def __init__(self, folder: Path, tables: dict[RunSpec, pa.Table] | None = None) -> None:
        super().__init__(Plan.read(), folder)
        self.given = tables or {}
        self.kept: dict[RunSpec, pa.Table] = {}

    def table(self, spec: RunSpec) -> pa.Table | None:
        return self.given.get(spec)

    def maps(self, spec: RunSpec) -> pa.Table | None:
        return self.kept.get(spec)

    def why(self, spec: RunSpec) -> str:
        return MISSING if self.plan.has(spec) else super().why(spec)


def audit(spec: RunSpec, *, scale: float = 1.0, samples: int = 6, seed: int = 0) -> pa.Table:
    """The rows of an audit in all balls of the plan; attacks reach ``scale`` times the bound."""
    (attribution,) = attributions_of(spec)
    rows = []
    for sample in range(samples):
        random = np.random.default_rng([seed, sample])
        xi, share = random.uniform(1, 3), random.uniform(0.5, 1)
        for ball in balls_of(spec):
            bound = xi * ball.epsilon
            attack = scale * share * bound
            name = "ifia" if ball.name == "linf" else "pgd"
            rows.append(
                {
                    "sample": 10 * sample,
                    "batch": 0,
                    "label": 1,
                    "attribution": attribution,
                    "ball": ball.name,
                    "epsilon": ball.epsilon,
                    "features": 784,
                    "attribution_norm": 0.5,
                    "bounds": [
                        {"claim": claim, "euclidean": bound}
                        for claim in ("first_order", "adjusted")
                    ],
                    "attacks": [_attack(name, attack, share)],
                    "strongest": {"by": name, "deviation": attack, "degrees": 10.0},
                }
            )
    return table(rows, SCHEMA)


def _attack(name: str, deviation: float, share: float) -> dict[str, object]:
    one = {"deviation": deviation, "degrees": 10.0, "kendall": 1 - share, "label_kept": True}
    return {"attack": name, **one, "evaluations": 200, "repeats": [one] * 20}


def eta(samples: int = 5) -> pa.Table:
    """Remainders that grow with the square of the radius."""
    rows = []
    for sample in range(samples):
        for epsilon in (0.01, 0.02, 0.04):
            for by, factor in (("random", 1.0), ("ascent", 10.0)):
                size = factor * (1 + sample)
                rows.append(
                    {
                        "sample": sample,
                        "epsilon": epsilon,
                        "by": by,
                        "eta": size * epsilon**2,
                        "deviation": size * epsilon,
                        "attribution_norm": 3.0,
                    }
                )
    return pa.Table.from_pylist(rows, schema=MEASUREMENTS["eta"].schema)


def maps(samples: list[int], kinds: list[str], shape=(1, 4, 4), epsilon: float = 0.05) -> pa.Table:
    """Maps whose attacked ones are turned by known angles."""
    size = math.prod(shape)
    first, second = np.eye(size)[:2]
    rows = []
    for kind in kinds:
        for sample in samples:
            clean = -3 * first
            attacked = 3 * (-first * math.cos(sample / 100) + second * math.sin(sample / 100))
            rows.append(
                {
                    "sample": sample,
                    "attribution": kind,
                    "ball": "linf",
                    "epsilon": epsilon,
                    "shape": list(shape),
                    "map_shape": list(shape),
                    "input": np.linspace(0, 1, size).tolist(),
                    "clean_map": clean.tolist(),
                    "delta": [0.0] * size,
                    "attacked_map": attacked.tolist(),
                }
            )
    return pa.Table.from_pylist(rows, schema=MAPS_SCHEMA)


def texts(figure) -> str:
    """Everything that is written below and inside a figure."""
    return "\n".join(text.get_text() for text in figure.texts)
