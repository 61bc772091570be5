"""Small measurements that no audit makes: dense Jacobians, and what linearisation leaves out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor, nn

import attribound as ab
from attribound.auditing import AuditSettings, chosen, load_data, load_model
from attribound.operators import dense
from reproduction.paper.items import QUADRATURE

_COLUMNS = 512
_RADII = 8
_STEPS = 8  # of the attack that eta is also measured at
_AT_ONCE = 12  # columns of a Jacobian in one product

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
_QUADRATURE = pa.schema(
    {
        "sample": pa.int64(),
        "rule": pa.string(),
        "error": pa.float64(),  # relative, against the integral
    }
)
_INTEGRAL = ab.IntegratedGradients(steps=400, quadrature="midpoint")


@dataclass(frozen=True, eq=False)
class MeasuredModel:
    """The attribution of a model, and samples, as an audit with these settings has them.

    Attributes:
        settings: complete; the first of its attributions is the one.
        attribution: of the model, or of its smooth copy.
        x: the samples.
        samples: their indices in the data.
        about: what recognises settings, model and data.
    """

    settings: AuditSettings
    attribution: ab.Attribution
    x: Tensor
    samples: list[int]
    about: dict[str, Any]

    @classmethod
    def of(cls, settings: AuditSettings) -> MeasuredModel:
        """Load model and data.

        Raises:
            InputError: one of them is missing.
        """
        loaded = load_model(settings.model, settings.weights)
        model = loaded.model.to(settings.device, settings.torch_dtype).eval()
        assert settings.smooth != "auto"  # the plan says which
        audited = model if settings.smooth is None else ab.smooth(model, settings.smooth).eval()
        examples = load_data(settings.data, settings.split)
        indices = chosen(len(examples), settings.limit, settings.seed, settings.skip)
        x = examples.read(indices).to(settings.device, settings.torch_dtype)
        recipe = settings.attributions[0]
        about = {
            "settings": settings.document(),
            "model": {**loaded.details, "name": loaded.name, "fingerprint": _model_digest(model)},
            "data": {"name": examples.name, "fingerprint": _digest(x)},
        }
        plain = json.loads(json.dumps(about))
        return cls(settings, recipe.of(audited), x, indices.tolist(), plain)


def jacobian_rows(subject: MeasuredModel) -> pa.Table:
    """The shape of J and P of every sample, from the dense Jacobian."""
    at = subject.attribution.linearize(subject.x)
    solved = ab.NormSolver()(at.jacobian, math.inf)
    rows = []
    for i in range(len(subject.x)):
        matrix = dense(at.jacobian, i, _AT_ONCE)
        d = len(matrix)
        xi = float(torch.linalg.matrix_norm(matrix.double(), 2))
        own = _shape(matrix, lambda part, whole: whole[part])
        squared = _shape(matrix, lambda part, whole: whole[:, part].T @ whole)
        rows.append(
            {
                "sample": int(subject.samples[i]),
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


def eta_rows(subject: MeasuredModel) -> pa.Table:
    """Remainder and deviation at random points and attacks of cubes up to the largest radius."""
    attribution, x, seed = subject.attribution, subject.x, subject.settings.seed
    cubes = [ball for ball in subject.settings.balls if isinstance(ball, ab.LinfBall)]
    top = max(ball.epsilon for ball in cubes)
    target = attribution.targets(x)
    sizes = attribution(x, target).flatten(1).norm(dim=1)
    rows: list[dict[str, Any]] = []
    for step in range(1, _RADII + 1):
        ball = ab.LinfBall(top * step / _RADII)
        for by, attack in (
            ("random", ab.attacks.RandomPerturbation(seed=seed)),
            ("ascent", ab.attacks.AttributionAscent(steps=_STEPS, seed=seed)),
        ):
            delta = attack(attribution, x, ball, target).delta
            found = ab.eta(attribution, x, delta, target)
            rows += [
                {
                    "sample": int(subject.samples[i]),
                    "epsilon": ball.epsilon,
                    "by": by,
                    "eta": float(found.eta[i]),
                    "deviation": float(found.deviation[i]),
                    "attribution_norm": float(sizes[i]),
                }
                for i in range(len(x))
            ]
    return pa.Table.from_pylist(rows, schema=_ETA)


def quadrature_rows(subject: MeasuredModel) -> pa.Table:
    """How far rules are from the integral, |g - g_400| / |g_400| by 400 midpoints."""
    classifier = subject.attribution.classifier
    assert classifier is not None
    rows: list[dict[str, Any]] = []
    for i in range(len(subject.x)):
        x = subject.x[i : i + 1]
        target = subject.attribution.targets(x)
        exact = _INTEGRAL.of(classifier)(x, target)
        for rule in subject.settings.attributions:
            error = (rule.of(classifier)(x, target) - exact).norm() / exact.norm()
            rows.append(
                {"sample": int(subject.samples[i]), "rule": rule.name, "error": float(error)}
            )
    return pa.Table.from_pylist(rows, schema=_QUADRATURE)


@dataclass(frozen=True)
class Recorded:
    """Columns, and what measures them."""

    schema: pa.Schema
    rows: Callable[[MeasuredModel], pa.Table]


MEASUREMENTS: dict[str, Recorded] = {
    "jacobian": Recorded(_JACOBIAN, jacobian_rows),
    "eta": Recorded(_ETA, eta_rows),
    QUADRATURE: Recorded(_QUADRATURE, quadrature_rows),
}


def measure_record(kind: str, settings: AuditSettings) -> tuple[dict[str, Any], pa.Table]:
    """The rows of a small measurement, and what they are of.

    Raises:
        InputError: model or data are missing.
    """
    subject = MeasuredModel.of(settings)
    return subject.about, MEASUREMENTS[kind].rows(subject)


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return f"sha256:{digest.hexdigest()}"


def _model_digest(model: nn.Module) -> str:
    return _digest(*model.state_dict().values())
