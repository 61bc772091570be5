"""Measure one batch of samples: all attributions, balls, claims and attacks of the settings."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from torch import Tensor

from attribound.attacks import judge
from attribound.attributions import fidelity
from attribound.auditing.attacked import Best, Prey, attack_columns
from attribound.auditing.claimed import (
    Row,
    Task,
    brackets,
    claim_columns,
    claimed,
    first_order_columns,
    unstacked,
)
from attribound.auditing.rows import MAPS_SCHEMA, schema, table
from attribound.auditing.settings import AuditSettings
from attribound.auditing.subject import Subject, methods, top
from attribound.balls import LpBall
from attribound.basics.errors import KinkError, ModelError
from attribound.bounding.first_order import FirstOrder, first_order_in_balls
from attribound.networks.fingerprint import without_addresses
from attribound.networks.inputs import check_inputs

__all__ = ["Batch", "Measured", "Subject", "failed", "measure"]

_LONGEST = 500  # characters of an error that are kept


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples that are computed together.

    Attributes:
        number: of the batch in its audit.
        indices: of the samples in the data.
        x: ``(batch, *features)``.
        labels: ``(batch,)``.
    """

    number: int
    indices: Tensor
    x: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def halves(self) -> Iterator[Batch]:
        """Its first and its second half."""
        middle = len(self) // 2
        for rows in (slice(0, middle), slice(middle, None)):
            yield Batch(self.number, self.indices[rows], self.x[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows of a batch (:func:`rows.schema`) and the maps that are kept of it."""

    rows: pa.Table
    maps: pa.Table


def measure(subject: Subject, batch: Batch) -> Measured:
    """Bound and attack every sample of a batch, in all settings.

    The same batch gives the same rows, timings aside. A sample that fails does not
    end the batch: what remains when the batch is halved again and again is recorded
    with its error, its numbers null.

    Raises:
        KinkError: the model is not smooth, which is no fault of a sample.
    """
    rows: list[Row] = []
    maps: list[Row] = []
    for name in subject.attributions:
        _attempt(subject, name, batch, (rows, maps))
    return Measured(table(rows, schema(subject.settings)), table(maps, MAPS_SCHEMA))


def failed(settings: AuditSettings, batch: Batch, error: str) -> Measured:
    """The rows of a batch of which nothing could be measured."""
    names = [each.name for each in settings.attributions]
    rows = [row for name in names for row in _failed(settings, name, batch, error)]
    return Measured(table(rows, schema(settings)), MAPS_SCHEMA.empty_table())


def _attempt(subject: Subject, name: str, batch: Batch, found: tuple[list[Row], list[Row]]) -> None:
    try:
        rows, maps = _measured(subject, name, batch)
    except KinkError as error:
        raise subject.kinked(error) from error
    except Exception as error:
        if len(batch) > 1:
            for half in batch.halves():
                _attempt(subject, name, half, found)
            return
        text = without_addresses(f"{type(error).__name__}: {error}")[:_LONGEST]
        rows, maps = _failed(subject.settings, name, batch, text), []
    found[0].extend(rows)
    found[1].extend(maps)


def _failed(settings: AuditSettings, name: str, batch: Batch, error: str) -> list[Row]:
    balls = [(each.norm, ball) for each in settings.balls for ball in each.balls]
    every = [row for norm, ball in balls for row in _identity(batch, name, norm, ball)]
    return [{**row, "error": error} for row in every]


def _identity(batch: Batch, name: str, norm: str, ball: LpBall) -> list[Row]:
    """The columns that are known beforehand."""
    return [
        {
            "sample": sample,
            "batch": batch.number,
            "label": label,
            "attribution": name,
            "norm": norm,
            "p": ball.p,
            "epsilon": ball.epsilon,
            "features": batch.x[0].numel(),
        }
        for sample, label in zip(batch.indices.tolist(), batch.labels.tolist(), strict=True)
    ]


def _measured(subject: Subject, name: str, batch: Batch) -> tuple[list[Row], list[Row]]:
    """Rows and maps of one attribution, all samples at once."""
    settings, attribution = subject.settings, subject.attributions[name]
    x = subject.place(check_inputs(batch.x))
    target = attribution.targets(x)
    features = x[0].numel()
    k = top(settings, features)
    prey = Prey(attribution, x, target, attribution(x, target), k)
    common = _common(subject, name, batch, prey)
    balls = [(each.norm, ball) for each in settings.balls for ball in each.balls]
    first_order = methods(settings)["first_order"]
    assert isinstance(first_order, FirstOrder)
    start = time.perf_counter()
    firsts = first_order_in_balls(attribution, x, [ball for _, ball in balls], target, first_order)
    seconds = (time.perf_counter() - start) / len(balls)
    rows: list[Row] = []
    maps: list[Row] = []
    for (norm, ball), first in zip(balls, firsts, strict=True):
        task = Task(subject, name, ball, x, target, first, seconds)
        claims = {
            claim: claim_columns(claim, made, len(x)) for claim, made in claimed(task).items()
        }
        attacks = {
            each: chosen.build(k, settings.seed)
            for each, chosen in (settings.attacks or {}).items()
            if chosen.applies(norm)
        }
        attacked, best = attack_columns(prey, ball, attacks, first.euclidean)
        identity = _identity(batch, name, norm, ball)
        columns = [identity, common, first_order_columns(first), *claims.values(), attacked]
        if best is not None and subject.originals:
            columns.append(_on_original(subject, name, prey, best))
        here: list[Row] = []
        for parts in zip(*columns, strict=True):
            row: Row = {key: value for part in parts for key, value in part.items()}
            here.append(row | brackets(row, list(claims)))
        _refuse_nan(here)
        rows += here
        if best is not None:
            maps += _maps(settings, here, prey, best)
    return rows, maps


def _common(subject: Subject, name: str, batch: Batch, prey: Prey) -> list[Row]:
    """What is the same in all balls: predictions, and how faithful a smooth copy is."""
    rows: list[Row] = [
        {"prediction": guess, "target": guess, "correct": guess == label}
        for guess, label in zip(prey.target.tolist(), batch.labels.tolist(), strict=True)
    ]
    if not subject.originals:
        return rows
    of = {id(subject.model): subject.originals[name], id(subject.audited): prey.attribution}
    found = fidelity(subject.model, subject.audited, prey.x, lambda model: of[id(model)])
    columns = {
        "fidelity_label": found.labels_agree,
        "fidelity_logits": found.logits,
        "fidelity_attribution": found.attribution,
        "fidelity_degrees": found.degrees,
    }
    return [{**row, **more} for row, more in zip(rows, unstacked(columns), strict=True)]


def _on_original(subject: Subject, name: str, prey: Prey, best: Best) -> list[Row]:
    """What the best perturbation does to the network that the smooth copy stands for."""
    found = judge(subject.originals[name], prey.x, best.delta, prey.target)
    assert found.label_kept is not None
    return unstacked(
        {
            "original_attack": found.deviation,
            "original_attack_degrees": found.degrees,
            "original_label_kept": found.label_kept,
        }
    )


def _refuse_nan(rows: list[Row]) -> None:
    for row in rows:
        for column, value in row.items():
            if isinstance(value, float) and math.isnan(value):
                raise ModelError(
                    f"sample {row['sample']}",
                    expected="numbers",
                    got=f"NaN in {column}",
                    remedy="use dtype float64, a smaller ball, or leave the sample out",
                )


def _maps(settings: AuditSettings, rows: list[Row], prey: Prey, best: Best) -> list[Row]:
    """Inputs and maps of all samples, or of those that moved most, turned most, and typically."""
    if settings.maps == "none":
        return []
    chosen = list(range(len(rows)))
    if settings.maps == "some":
        order = best.deviation.argsort(stable=True).tolist()
        turned = int(best.degrees.argmax())
        chosen = sorted({order[-1], order[(len(order) - 1) // 2], turned})
    found: list[Row] = []
    for i in chosen:
        tensors = {
            "input": prey.x[i],
            "clean_map": prey.clean[i],
            "delta": best.delta[i],
            "attacked_map": best.attacked_map[i],
        }
        row: Row = {key: rows[i][key] for key in ("sample", "attribution", "norm", "epsilon")}
        row["shape"] = list(prey.x.shape[1:])
        row |= {
            key: value.detach().cpu().float().flatten().tolist() for key, value in tensors.items()
        }
        found.append(row)
    return found
