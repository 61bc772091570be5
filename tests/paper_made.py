"""Runs of the shipped plan with rows made up from single trials, which tests can count again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from reproduction.paper.items import RunSpec
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs

from attribound.auditing.rows import attacks_in, schema, table

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


def samples_of(
    spec: RunSpec, norm: str, epsilon: float, *, strength: float = 0.6, seed: int = 0
) -> list[Sample]:
    """Attacks reach ``strength`` times T_e on average; some flip the label."""
    settings = PLAN.settings(spec)
    found = []
    for i in range(SAMPLES):
        random = np.random.default_rng([seed, i, round(1e6 * epsilon), len(norm)])
        bound = epsilon * float(random.uniform(1, 3))
        own = Sample(bound, bound * float(random.uniform(1, 1.2)), float(random.uniform(0.5, 2)))
        for name, attack in settings.attacks.items():
            if attack.applies(norm):
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
    settings = PLAN.settings(spec)
    columns = schema(settings)
    rows = [
        row(settings, attribution.name, ball, epsilon, i, sample)
        for attribution in settings.attributions
        for ball in settings.balls
        for epsilon in ball.epsilons
        for i, sample in enumerate(
            samples_of(spec, ball.norm, epsilon, strength=strength, seed=seed)
        )
    ]
    assert attacks_in(columns.names)
    return table(rows, columns)


def row(settings, attribution: str, ball, epsilon: float, i: int, sample: Sample) -> dict:
    known = {
        "sample": 10 * i,
        "batch": 0,
        "label": 1,
        "attribution": attribution,
        "norm": ball.norm,
        "p": ball.p,
        "epsilon": epsilon,
        "features": 784,
    }
    if i == FAILED:
        return {**known, "error": "boom"}
    found = {
        **known,
        "attribution_norm": sample.size,
        "first_order": sample.bound,
        "adjusted": sample.adjusted,
        "kendall": 0.5,
    }
    if "mean_value" in settings.claims:
        found["mean_value"] = 2 * sample.bound
    for name, trials in sample.trials.items():
        found |= attack(f"attack_{name}", trials, sample.bound)
    best = max((t for each in sample.trials.values() for t in each), key=lambda t: t.deviation)
    return {**found, "attack": best.deviation, "attack_degrees": best.degrees}


def attack(stem: str, trials: list[Trial], bound: float) -> dict:
    kept = [trial for trial in trials if trial.kept]
    furthest = max(trials, key=lambda trial: trial.deviation)

    def mean(values: list[float]) -> float | None:
        return float(np.mean(values)) if values else None

    return {
        stem: furthest.deviation,
        f"{stem}_mean": mean([t.deviation for t in trials]),
        f"{stem}_degrees": max(t.degrees for t in trials),
        f"{stem}_mean_degrees": mean([t.degrees for t in trials]),
        f"{stem}_mean_kendall": mean([t.kendall for t in trials]),
        f"{stem}_repeats": len(trials),
        f"{stem}_outside": sum(t.deviation > bound for t in trials),
        f"{stem}_kept": len(kept),
        f"{stem}_kept_outside": sum(t.deviation > bound for t in kept),
        f"{stem}_kept_mean": mean([t.deviation for t in kept]),
        f"{stem}_kept_mean_degrees": mean([t.degrees for t in kept]),
        f"{stem}_label_kept": furthest.kept,
        f"{stem}_evaluations": 9,
    }
