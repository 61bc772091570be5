"""Small measurements that no audit makes: dense Jacobians, and what linearisation leaves out.

Stored as one Parquet file for each batch of samples; what is there is not measured again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from attribound.attacks import AttributionAscent, RandomPerturbation
from attribound.attributions import Attribution
from attribound.auditing.audited import Samples, samples_of
from attribound.auditing.manifest import column_types, schema_of
from attribound.auditing.measure import Batch, Subject
from attribound.auditing.parts import Parts
from attribound.auditing.settings import AuditSettings, dump_settings
from attribound.balls import LinfBall
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.basics.whole_files import store_whole, storing
from attribound.bounding.first_order import eta
from attribound.bounding.first_order.dense_limit import matrices
from attribound.spectral import NormSolver

RECORD = "record.json"
PARTS = "parts"
_COLUMNS = 512
_RADII = 8
_STEPS = 8  # of the attack that eta is also measured at

_JACOBIAN = pa.schema(
    {
        "sample": pa.int64(),
        "features": pa.int64(),
        "xi": pa.float64(),  # largest singular value of J
        "theorem_2": pa.float64(),  # sqrt(sum |P|), P = J^T J; all for the unit cube
        "corollary_1": pa.float64(),
        "certificate": pa.float64(),
        # Of J, then of P: rows whose diagonal entry is at least the sum of the others; rows
        # in which it is the largest; its share of the sum of all entries.
        **{
            f"{matrix}_{what}": pa.float64()
            for matrix in ("j", "p")
            for what in ("dominant", "largest", "mass")
        },
    }
)
_ETA = pa.schema(
    {
        "sample": pa.int64(),
        "epsilon": pa.float64(),  # |delta|_inf
        "by": pa.string(),  # random, or ascent: the attack on the attribution
        "eta": pa.float64(),
        "deviation": pa.float64(),
        "attribution_norm": pa.float64(),
    }
)


def jacobian_rows(settings: AuditSettings, attribution: Attribution, batch: Batch) -> pa.Table:  # noqa: ARG001
    """The shape of J and P of every sample, from the dense Jacobian."""
    x = batch.x
    at = attribution.linearize(x)
    solved = NormSolver()(at.jacobian, math.inf)
    rows = []
    for i, matrix in enumerate(matrices(at.jacobian)):
        d = len(matrix)
        xi = float(torch.linalg.matrix_norm(matrix.double(), 2))
        own = _shape(matrix, lambda part, whole: whole[part])
        squared = _shape(matrix, lambda part, whole: whole[:, part].T @ whole)
        rows.append(
            {
                "sample": int(batch.indices[i]),
                "features": d,
                "xi": xi,
                "theorem_2": math.sqrt(squared.pop("sum")),
                "corollary_1": math.sqrt(d) * xi,
                "certificate": float(solved.value.upper[i]),
                **{f"j_{name}": value for name, value in own.items() if name != "sum"},
                **{f"p_{name}": value for name, value in squared.items()},
            }
        )
    return pa.Table.from_pylist(rows, schema=_JACOBIAN)


def _shape(matrix: Tensor, strip: Callable[[slice, Tensor], Tensor]) -> dict[str, float]:
    """How diagonal a square matrix is that ``strip`` makes of another, some rows at a time."""
    dominant = largest = filled = 0
    diagonal_mass = total = 0.0
    for start in range(0, len(matrix), _COLUMNS):
        part = strip(slice(start, start + _COLUMNS), matrix).double().abs()
        rows = len(part)
        diagonal = part[torch.arange(rows), start + torch.arange(rows)]
        sums = part.sum(1)
        there = sums > 0
        filled += int(there.sum())
        dominant += int((there & (2 * diagonal >= sums)).sum())
        largest += int((there & (diagonal >= part.amax(1))).sum())
        diagonal_mass += float(diagonal.sum())
        total += float(sums.sum())
    rows_filled = max(filled, 1)  # a zero matrix has none
    return {
        "dominant": dominant / rows_filled,
        "largest": largest / rows_filled,
        "mass": diagonal_mass / total if total else 1.0,
        "sum": total,
    }


def eta_rows(settings: AuditSettings, attribution: Attribution, batch: Batch) -> pa.Table:
    """Remainder and deviation at random points and attacks of cubes up to the largest radius."""
    x = batch.x
    top = max(epsilon for ball in settings.balls if ball.p == math.inf for epsilon in ball.epsilons)
    target = attribution.targets(x)
    sizes = norm(attribution(x, target))
    rows: list[dict[str, Any]] = []
    for step in range(1, _RADII + 1):
        ball = LinfBall(top * step / _RADII)
        for by, attack in (
            ("random", RandomPerturbation(seed=settings.seed)),
            ("ascent", AttributionAscent(steps=_STEPS, seed=settings.seed)),
        ):
            delta = attack(attribution, x, ball, target).delta
            found = eta(attribution, x, delta, target)
            rows += [
                {
                    "sample": int(batch.indices[i]),
                    "epsilon": ball.epsilon,
                    "by": by,
                    "eta": float(found.eta[i]),
                    "deviation": float(found.deviation[i]),
                    "attribution_norm": float(sizes[i]),
                }
                for i in range(len(x))
            ]
    return pa.Table.from_pylist(rows, schema=_ETA)


@dataclass(frozen=True)
class Measurement:
    """Columns, and what measures them on a batch."""

    schema: pa.Schema
    rows: Callable[[AuditSettings, Attribution, Batch], pa.Table]


MEASUREMENTS: dict[str, Measurement] = {
    "jacobian": Measurement(_JACOBIAN, jacobian_rows),
    "eta": Measurement(_ETA, eta_rows),
}


def measure_record(kind: str, settings: AuditSettings, folder: Path) -> None:
    """Measure the batches of a record that are not in ``folder`` yet.

    Raises:
        InputError: model or data are missing, or another record is there.
    """
    subject = Subject.load(settings)
    samples = samples_of(None, subject.settings)
    document = _document(kind, subject, samples)
    place = folder / RECORD
    with storing(place):
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    if not place.is_file():
        store_whole(place, f"{json.dumps(document, indent=1)}\n".encode())
    elif json.loads(place.read_text(encoding="utf-8")) != document:
        raise InputError(
            f"record {folder}",
            expected="the settings, model and data it was begun with",
            got="others",
            remedy="delete the folder, or choose another",
        )
    parts = _parts(folder, document)
    (attribution,) = subject.attributions.values()
    done = parts.numbers()
    for number in range(document["batches"]):
        if number not in done:
            batch = samples.batch(number)
            placed = Batch(number, batch.indices, subject.place(batch.x), batch.labels)
            found = MEASUREMENTS[kind].rows(subject.settings, attribution, placed)
            parts.write(number, found)


def read_record(folder: Path) -> tuple[dict[str, Any], pa.Table]:
    """What a record is of, and its rows so far.

    Raises:
        InputError: it is damaged.
    """
    document = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    parts = _parts(folder, document)
    numbers = parts.numbers()
    for number in numbers:
        parts.verify(number)
    return document, parts.read(numbers)


def _document(kind: str, subject: Subject, samples: Samples) -> dict[str, Any]:
    document = {
        "kind": kind,
        "settings": dump_settings(subject.settings),
        "model": {**subject.details, "fingerprint": subject.fingerprint},
        "data": samples.fingerprint,
        "samples": len(samples),
        "batches": -(-len(samples) // samples.size),
        "columns": column_types(MEASUREMENTS[kind].schema),
    }
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def _parts(folder: Path, document: dict[str, Any]) -> Parts:
    text = json.dumps(document, sort_keys=True)
    identity = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return Parts(folder / PARTS, identity, schema_of(document["columns"]))
