"""Runs of the shipped plan with rows made up from single trials, which tests can count again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attribound.auditing.rows import SCHEMA, table
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs

PLAN = Plan.read()
SAMPLES = 7
FAILED = 4
REPEATS = 5


@dataclass
class Trial:
    """One repeat of one attack on one sample."""

    deviation: float
    degrees: float
    kept: bool
    kendall: float


@dataclass
class Sample:
    """What a row is made from."""

    bound: float
    adjusted: float
    size: float
    trials: dict[str, list[Trial]] = field(default_factory=dict)


class MadeRuns(Runs):
    """Runs that are given; no others are there."""

    def __init__(self, tables: dict[RunSpec, pa.Table], plan: Plan | None = None) -> None:
        super().__init__(plan or PLAN, Path("nowhere"))
        self.given = tables

    def table(self, spec: RunSpec) -> pa.Table | None:
        return self.given.get(spec)

    def why(self, spec: RunSpec) -> str:
        return "not run yet" if self.plan.has(spec) else super().why(spec)


def balls_of(spec: RunSpec) -> list[Any]:
    """Those of all kinds that fill a run."""
    every = (PLAN.settings(spec, kind).balls for kind in PLAN.kinds_of(spec))
    return list(dict.fromkeys(ball for balls in every for ball in balls))


def attributions_of(spec: RunSpec) -> list[str]:
    """The same for what is explained."""
    every = (PLAN.settings(spec, kind).attributions for kind in PLAN.kinds_of(spec))
    return list(dict.fromkeys(each.name for attributions in every for each in attributions))


def attacks_of(spec: RunSpec, ball: Any) -> list[str]:
    """The names of the attacks that are made in a ball."""
    settings = (PLAN.settings(spec, kind) for kind in PLAN.kinds_of(spec))
    return list(
        dict.fromkeys(
            name
            for each in settings
            if ball in each.balls
            for name, attack in each.attacks.items()
            if attack.applies(ball)
        )
    )


def samples_of(
    spec: RunSpec, norm: str, epsilon: float, *, strength: float = 0.6, seed: int = 0
) -> list[Sample]:
    """Attacks reach ``strength`` times T_e on average; some flip the label."""
    (ball,) = [b for b in balls_of(spec) if (b.name, b.epsilon) == (norm, epsilon)]
    found = []
    for i in range(SAMPLES):
        random = np.random.default_rng([seed, i, round(1e6 * epsilon), len(norm)])
        bound = epsilon * float(random.uniform(1, 3))
        own = Sample(bound, bound * float(random.uniform(1, 1.2)), float(random.uniform(0.5, 2)))
        for name in attacks_of(spec, ball):
            own.trials[name] = [
                Trial(
                    strength * bound * float(random.uniform(0.5, 1.5)),
                    float(random.uniform(1, 40)),
                    bool(random.random() < 0.7),
                    float(random.uniform(0, 1)),
                )
                for _ in range(REPEATS)
            ]
        found.append(own)
    return found


def audit(spec: RunSpec, *, strength: float = 0.6, seed: int = 0) -> pa.Table:
    """All rows of a run."""
    claims = ["first_order", "adjusted"]
    claims += ["mean_value"] if "strong" in spec.part else []
    rows = [
        row(claims, attribution, ball, i, sample)
        for attribution in attributions_of(spec)
        for ball in balls_of(spec)
        for i, sample in enumerate(
            samples_of(spec, ball.name, ball.epsilon, strength=strength, seed=seed)
        )
    ]
    assert any(each["attacks"] for each in rows)
    return table(rows, SCHEMA)


def row(claims: list[str], attribution: str, ball, i: int, sample: Sample) -> dict:
    known = {
        "sample": 10 * i,
        "batch": 0,
        "label": 1,
        "attribution": attribution,
        "ball": ball.name,
        "epsilon": ball.epsilon,
        "features": 784,
        "bounds": [],
        "attacks": [],
    }
    if i == FAILED:
        return {**known, "error": "boom"}
    values = {
        "first_order": sample.bound,
        "adjusted": sample.adjusted,
        "mean_value": 2 * sample.bound,
    }
    attacks = [attack(name, trials) for name, trials in sample.trials.items()]
    best = max(attacks, key=lambda record: record["deviation"])
    return {
        **known,
        "attribution_norm": sample.size,
        "bounds": [{"claim": claim, "euclidean": values[claim]} for claim in claims],
        "attacks": attacks,
        "strongest": {
            "by": best["attack"],
            "deviation": best["deviation"],
            "degrees": max(record["degrees"] for record in attacks),
            "label_kept": best["label_kept"],
            "kendall": best["kendall"],
        },
    }


def attack(name: str, trials: list[Trial]) -> dict:
    furthest = max(trials, key=lambda trial: trial.deviation)
    return {
        "attack": name,
        "deviation": furthest.deviation,
        "degrees": max(t.degrees for t in trials),
        "label_kept": furthest.kept,
        "kendall": furthest.kendall,
        "evaluations": 9,
        "repeats": [
            {
                "deviation": t.deviation,
                "degrees": t.degrees,
                "kendall": t.kendall,
                "label_kept": t.kept,
            }
            for t in trials
        ],
    }


def changed(rows: pa.Table, change: Callable[[dict[str, Any]], None]) -> pa.Table:
    """The same rows after ``change`` was made to each that did not fail."""
    listed = rows.to_pylist()
    for each in listed:
        if each["error"] is None:
            change(each)
    return pa.Table.from_pylist(listed, schema=rows.schema)


def bound_of(row: dict[str, Any], claim: str) -> dict[str, Any]:
    """The record of a claim in a row, to read or to change."""
    (found,) = [record for record in row["bounds"] if record["claim"] == claim]
    return found


def attack_of(row: dict[str, Any], name: str) -> dict[str, Any]:
    """The record of an attack in a row, to read or to change."""
    (found,) = [record for record in row["attacks"] if record["attack"] == name]
    return found
