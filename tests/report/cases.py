"""Runs with known numbers, hostile names, exceeded bounds, undefined angles and failed samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

import attribound as ab
from attribound.auditing import AuditSettings, Run
from attribound.auditing.bounded import mark_exceeded
from attribound.auditing.manifest import Manifest
from attribound.auditing.rows import COPY, MAPS_SCHEMA, SCHEMA, YOURS, table
from attribound.balls import Ball
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.first_order.sensitivity import RANGE_CERTIFICATE
from attribound.bounding.guarantees import method_of

HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert(2)">'"&$"""
CLASSES = ["shirt", HOSTILE, "bag"]
FAILED, ZERO, WRONG = 3, 5, 7  # samples
EXACT = (0.0, 1e-4)  # what rounding may have added to distances and angles
#: Bound / (xi epsilon) by claim.
FACTORS = {
    "first_order": 1.0,
    "adjusted": 1.05,
    "calibrated": 1.3,
    "mean_value": 1.25,
    "certified": 2.5,
}
L2 = (ab.L2Ball(0.05), ab.L2Ball(0.1))


@dataclass(frozen=True)
class Tables:
    rows: pa.Table
    maps: pa.Table


@dataclass(frozen=True)
class Copied:
    """Turns rows into those of an audit with a smooth copy.

    The network itself moves ``factor`` times as far as its copy; ``own`` names claims whose
    bounds are of the network.
    """

    factor: float
    beta: float = 20.0
    own: tuple[str, ...] = ()

    def __call__(self, row: Mapping[str, object], number: int) -> Mapping[str, object]:
        if "strongest" not in row:
            return row
        copy = row["strongest"]
        yours = {**copy, "deviation": self.factor * copy["deviation"], "by": "kinks"}
        bounds = [
            {**bound, "subject": YOURS if bound["claim"] in self.own else COPY}
            for bound in row["bounds"]
        ]
        mark_exceeded(bounds, {COPY: copy, YOURS: yours}, dict.fromkeys((COPY, YOURS), EXACT))
        (attack,) = row["attacks"]
        attacks = [
            {**attack, "subject": COPY},
            {**attack, "attack": "kinks", "subject": YOURS, "deviation": yours["deviation"]},
        ]
        fidelity = {
            "label": number % 5 != 0,
            "logits": 0.01,
            "attribution": 0.2,
            "degrees": 10.0 + number % 7,
            "ball_degrees": 12.0 + number % 7,
        }
        found = {"fidelity": fidelity, "yours": yours, "bounds": bounds, "attacks": attacks}
        return {**row, **found}


def settings(claims: Sequence[str] = tuple(FACTORS), **changes: object) -> AuditSettings:
    chosen: dict[str, object] = {
        "model": "zoo:fashion-mnist/at",
        "data": "fashion-mnist",
        "limit": 24,
        "attributions": (ab.Saliency(), ab.IntegratedGradients(label=HOSTILE)),
        "balls": (*L2, *(ab.LinfBall(epsilon, low=0, high=1) for epsilon in (0.01, 0.02))),
        "claims": tuple(method_of(claim) for claim in claims),
        "attacks": {"ascent": ab.attacks.AttributionAscent()},
        "batch": 8,
        **changes,
    }
    return AuditSettings(**chosen)


def run(
    folder: Path,
    chosen: AuditSettings | None = None,
    *,
    shape: tuple[int, ...] = (1, 8, 8),
    map_shape: tuple[int, ...] | None = None,
    scale: float = 1.0,
    seed: int = 0,
    fingerprint: str = "sha256:data",
    batches: int | None = None,
    claims: Mapping[str, float] | None = None,
    document: Mapping[str, object] | None = None,
    copied: Copied | None = None,
) -> Run:
    """A run of ``limit`` samples; ``scale`` multiplies deviations, ``batches`` cuts it short.

    ``claims`` (names and factors) are in the rows in place of those of the settings, and
    ``document`` changes the settings that are stored. ``copied``: with a smooth copy.
    """
    chosen = chosen or settings(smooth=None if copied is None else copied.beta)
    samples = chosen.limit
    names = claims or {method.claim.name: 0.0 for method in chosen.claims or ()}
    factors = {name: factor or FACTORS[name] for name, factor in names.items()}
    manifest = Manifest(
        settings={**chosen.document(), **(document or {})},
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
        rows_per_sample=len(chosen.attributions) * len(chosen.balls),
        created="2026-01-01T00:00:00+00:00",
    )
    shapes = shape, shape if map_shape is None else map_shape
    with Run.create(folder, manifest) as made:
        for number in range(manifest.batches if batches is None else batches):
            first = number * chosen.batch
            members = range(first, first + manifest.size(number))
            sizes = tuple(math.prod(each) for each in shapes)
            rows = [row for i in members for row in sample(chosen, i, sizes, factors, scale, seed)]
            if copied is not None:
                rows = [copied(row, i) for i, row in enumerate(rows)]
            maps = [row for i in members if i != FAILED for row in drawn(chosen, i, *shapes)]
            batch = [{**row, "batch": number} for row in rows]
            made.write(number, Tables(table(batch, SCHEMA), table(maps, MAPS_SCHEMA)))
    return Run.open(folder)


def sample(
    chosen: AuditSettings,
    i: int,
    sizes: tuple[int, int],
    factors: Mapping[str, float],
    scale: float,
    seed: int,
) -> list[Mapping[str, object]]:
    rows = []
    for a, attribution in enumerate(chosen.attributions):
        random = np.random.default_rng([seed, i, a])
        norm = 0.0 if i == ZERO else float(random.lognormal(0, 0.3))
        xi = scale * float(random.lognormal(1, 0.4))
        strength = float(random.uniform(0.5, 1.2))
        for number, ball in enumerate(chosen.balls):
            row: dict[str, object] = {
                "sample": 100 + 10 * i,
                "label": i % 3,
                "attribution": attribution.name,
                "ball": ball.name,
                "epsilon": ball.epsilon,
                "features": sizes[0],
                "bounds": [],
                "attacks": [],
            }
            if i == FAILED:
                rows.append({**row, "error": f"ModelError: {HOSTILE}"})
                continue
            # A value range cuts the ball: T grows more slowly than the radius.
            cut = 1 - 10 * ball.epsilon if ranged(ball) else 1.0
            reach = xi * ball.epsilon * cut
            row |= {
                "scores": sizes[1],
                "prediction": (i + (i == WRONG)) % 3,
                "target": i % 3,
                "correct": i != WRONG,
                "attribution_norm": norm,
            }
            if chosen.attacks:
                row |= attacked(strength * reach * (0.9 + 0.05 * number), norm, i, strength)
            bounds = []
            for claim, factor in factors.items():
                value = math.inf if claim == "calibrated" and i == 9 else factor * reach
                bounds.append(bound(claim, value, norm, xi))
                if claim == "first_order" and ranged(ball):
                    bounds[-1]["source"] = RANGE_CERTIFICATE
            row["yours"] = row.get("strongest")
            mark_exceeded(bounds, {YOURS: row.get("strongest")}, {YOURS: EXACT})
            rows.append({**row, "bounds": bounds})
    return rows


def ranged(ball: Ball) -> bool:
    return ball.limited and ball.name == "linf"


def angle(deviation: float, norm: float) -> float:
    values = torch.tensor([deviation], dtype=torch.float64), torch.tensor([norm]).double()
    return cosine_and_degrees(*values)[1].item()


def bound(claim: str, value: float, norm: float, xi: float) -> dict[str, object]:
    pair = torch.tensor([value], dtype=torch.float64), torch.tensor([norm]).double()
    cosine, degrees = (each.item() for each in cosine_and_degrees(*pair))
    return {
        "claim": claim,
        "subject": YOURS,
        "euclidean": value,
        "cosine": cosine,
        "degrees": degrees,
        "xi_lower": 0.99 * xi,
        "xi_upper": xi,
        "status": "converged",
        "source": "Theorem 1",
        "products": 20,
        "seconds": 0.01,
    }


def attacked(value: float, norm: float, i: int, strength: float) -> dict[str, object]:
    found = {
        "deviation": value,
        "degrees": angle(value, norm),
        "label_kept": i % 4 != 0,
        "kendall": 0.9 - 0.3 * strength,
        "topk": 0.8,
    }
    repeat = {key: found[key] for key in ("deviation", "degrees", "kendall", "label_kept")}
    record = {**found, "evaluations": 24, "seconds": 0.02, "repeats": [repeat]}
    return {
        "strongest": {"by": "ascent", **found},
        "attacks": [{"attack": "ascent", "subject": YOURS, **record}],
    }


def drawn(
    chosen: AuditSettings, i: int, shape: tuple[int, ...], map_shape: tuple[int, ...]
) -> list[Mapping[str, object]]:
    random = np.random.default_rng(i)
    size, scores = math.prod(shape), math.prod(map_shape)
    ramp = np.linspace(0, 1, scores)
    return [
        {
            "sample": 100 + 10 * i,
            "attribution": attribution.name,
            "ball": ball.name,
            "epsilon": ball.epsilon,
            "shape": list(shape),
            "map_shape": list(map_shape),
            "input": np.linspace(0, 1, size).tolist(),
            "clean_map": (ramp - 0.5).tolist(),
            "delta": (ball.epsilon * random.choice([-1, 1], size) / math.sqrt(size)).tolist(),
            "attacked_map": (ramp - 0.5 + 0.2 * random.standard_normal(scores)).tolist(),
        }
        for attribution in chosen.attributions
        for ball in chosen.balls
    ]
