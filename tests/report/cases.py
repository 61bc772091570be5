"""Runs with known numbers, hostile names, broken bounds, undefined angles and failed samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from attribound.auditing.manifest import Manifest, column_types
from attribound.auditing.rows import MAPS_SCHEMA, schema, table
from attribound.auditing.settings import (
    AscentSettings,
    AuditSettings,
    BallSettings,
    IGSettings,
    SaliencySettings,
    dump_settings,
)
from attribound.auditing.store import Run
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.first_order.sensitivity import RANGE_CERTIFICATE

HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert(2)">'"&$"""
CLASSES = ["shirt", HOSTILE, "bag"]
FAILED, ZERO, WRONG = 3, 5, 7  # samples
#: Bound / (xi epsilon) by claim.
FACTORS = {"first_order": 1.0, "calibrated": 1.3, "mean_value": 1.25, "certified": 2.5}


@dataclass(frozen=True)
class Tables:
    rows: pa.Table
    maps: pa.Table


def settings(**changes: object) -> AuditSettings:
    chosen: dict[str, object] = {
        "model": "zoo:fashion-mnist/at",
        "data": "fashion-mnist",
        "limit": 24,
        "attributions": (SaliencySettings(), IGSettings(label=HOSTILE)),
        "balls": (BallSettings("l2", (0.05, 0.1)), BallSettings("linf", (0.01, 0.02), 0, 1)),
        "claims": tuple(FACTORS),
        "attacks": {"ascent": AscentSettings()},
        "batch": 8,
        **changes,
    }
    return AuditSettings(**chosen)


def run(
    folder: Path,
    chosen: AuditSettings | None = None,
    *,
    shape: tuple[int, ...] = (1, 8, 8),
    scale: float = 1.0,
    seed: int = 0,
    fingerprint: str = "sha256:data",
    batches: int | None = None,
) -> Run:
    """A run of ``limit`` samples; ``scale`` multiplies deviations, ``batches`` cuts it short."""
    chosen = chosen or settings()
    samples = chosen.limit
    columns = schema(chosen)
    manifest = Manifest(
        settings=dump_settings(chosen),
        model={"name": chosen.model, "fingerprint": "sha256:model"},
        data={
            "name": chosen.data,
            "fingerprint": fingerprint,
            "classes": CLASSES,
            "shape": list(shape),
        },
        versions={"attribound": "0.1.0", "torch": "2.13.0"},
        samples=samples,
        batch=chosen.batch,
        rows_per_sample=len(chosen.attributions) * sum(len(b.epsilons) for b in chosen.balls),
        columns=column_types(columns),
        map_columns=column_types(MAPS_SCHEMA),
        created="2026-01-01T00:00:00+00:00",
    )
    with Run.create(folder, manifest) as made:
        for number in range(manifest.batches if batches is None else batches):
            first = number * chosen.batch
            members = range(first, first + manifest.size(number))
            rows = [row for i in members for row in sample(chosen, i, shape, scale, seed)]
            maps = [row for i in members if i != FAILED for row in drawn(chosen, i, shape)]
            batch = [{**row, "batch": number} for row in rows]
            made.write(
                number,
                Tables(table(batch, columns), pa.Table.from_pylist(maps, schema=MAPS_SCHEMA)),
            )
    return Run.open(folder)


def balls(chosen: AuditSettings) -> list[tuple[str, float, float, bool]]:
    return [
        (ball.norm, ball.p, epsilon, ball.p == math.inf and ball.low is not None)
        for ball in chosen.balls
        for epsilon in ball.epsilons
    ]


def sample(
    chosen: AuditSettings, i: int, shape: tuple[int, ...], scale: float, seed: int
) -> list[Mapping[str, object]]:
    rows = []
    for a, attribution in enumerate(chosen.attributions):
        random = np.random.default_rng([seed, i, a])
        norm = 0.0 if i == ZERO else float(random.lognormal(0, 0.3))
        xi = scale * float(random.lognormal(1, 0.4))
        strength = float(random.uniform(0.5, 1.2))
        for number, (name, p, epsilon, ranged) in enumerate(balls(chosen)):
            row: dict[str, object] = {
                "sample": 100 + 10 * i,
                "label": i % 3,
                "attribution": attribution.name,
                "norm": name,
                "p": p,
                "epsilon": epsilon,
                "features": math.prod(shape),
            }
            if i == FAILED:
                rows.append({**row, "error": f"ModelError: {HOSTILE}"})
                continue
            # A value range cuts the ball: T grows more slowly than the radius.
            reach = xi * (epsilon * (1 - 10 * epsilon) if ranged else epsilon)
            attack = strength * reach * (0.9 + 0.05 * number) if chosen.attacks else None
            row |= {
                "prediction": (i + (i == WRONG)) % 3,
                "target": i % 3,
                "correct": i != WRONG,
                "attribution_norm": norm,
                "xi_lower": 0.99 * xi,
                "xi_upper": xi,
                **bounds("adjusted", 1.05 * reach, norm, attack, own=False),
            }
            if attack is not None:
                row |= {
                    **attacked("attack_ascent", attack, norm),
                    "attack": attack,
                    "attack_by": "ascent",
                    "attack_degrees": angle(attack, norm),
                    "attack_label_kept": i % 4 != 0,
                    "kendall": 0.9 - 0.3 * strength,
                    "topk": 0.8,
                }
            for claim in chosen.claims or ():
                value = math.inf if claim == "calibrated" and i == 9 else FACTORS[claim] * reach
                row |= bounds(claim, value, norm, attack)
                if claim == "first_order" and ranged:
                    row["first_order_source"] = RANGE_CERTIFICATE
            rows.append(row)
    return rows


def angle(deviation: float, norm: float) -> float:
    values = torch.tensor([deviation], dtype=torch.float64), torch.tensor([norm]).double()
    return cosine_and_degrees(*values)[1].item()


def bounds(
    claim: str, value: float, norm: float, attack: float | None, own: bool = True
) -> dict[str, object]:
    pair = torch.tensor([value], dtype=torch.float64), torch.tensor([norm]).double()
    cosine, degrees = (each.item() for each in cosine_and_degrees(*pair))
    row: dict[str, object] = {
        claim: value,
        f"{claim}_cosine": cosine,
        f"{claim}_degrees": degrees,
        f"{claim}_broken": None if attack is None else attack > value,
    }
    if own:
        row |= {
            f"{claim}_status": "converged",
            f"{claim}_source": "Theorem 1",
            f"{claim}_products": 20,
            f"{claim}_seconds": 0.01,
            f"{claim}_degrees_broken": None if attack is None else attack > value,
        }
    return row


def attacked(name: str, value: float, norm: float) -> dict[str, object]:
    return {
        name: value,
        f"{name}_mean": value,
        f"{name}_degrees": angle(value, norm),
        f"{name}_mean_degrees": angle(value, norm),
        f"{name}_label_kept": True,
        f"{name}_kendall": 0.5,
        f"{name}_topk": 0.8,
        f"{name}_evaluations": 24,
        f"{name}_seconds": 0.02,
    }


def drawn(chosen: AuditSettings, i: int, shape: tuple[int, ...]) -> list[Mapping[str, object]]:
    random = np.random.default_rng(i)
    size = math.prod(shape)
    ramp = np.linspace(0, 1, size)
    return [
        {
            "sample": 100 + 10 * i,
            "attribution": attribution.name,
            "norm": name,
            "epsilon": epsilon,
            "shape": list(shape),
            "input": ramp.tolist(),
            "clean_map": (ramp - 0.5).tolist(),
            "delta": (epsilon * random.choice([-1, 1], size) / math.sqrt(size)).tolist(),
            "attacked_map": (ramp - 0.5 + 0.2 * random.standard_normal(size)).tolist(),
        }
        for attribution in chosen.attributions
        for name, _, epsilon, _ in balls(chosen)
    ]
