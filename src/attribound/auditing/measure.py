"""Measure one batch of samples: all attributions, balls, claims and attacks of the settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import torch

from attribound.attacks import Attack
from attribound.attacks.remembered import climbs_kept
from attribound.attributions import fidelity
from attribound.auditing.at_work import Say, Steps, expected
from attribound.auditing.attacked import Found, Prey, Transferred, attack_all, kept_maps
from attribound.auditing.batches import Batch
from attribound.auditing.bounded import (
    Fields,
    bound_records,
    mark_exceeded,
    prepared,
    put,
    unstacked,
)
from attribound.auditing.on_averaged import on_averaged
from attribound.auditing.reasoned import Lists
from attribound.auditing.rows import AVERAGED, COPY, MAPS_SCHEMA, SCHEMA, YOURS, table
from attribound.auditing.settings import AuditSettings
from attribound.auditing.subject import Subject, top
from attribound.balls import Ball
from attribound.basics.errors import KinkError, ModelError
from attribound.basics.tensors import angle_degrees, norm
from attribound.bounding.method import Question
from attribound.data.examples import UNKNOWN
from attribound.networks.fingerprint import without_addresses
from attribound.networks.inputs import check_inputs

_POINTS = 3  # of a ball, at which a copy is compared with its network
_LONGEST = 500  # characters of an error that are kept


@dataclass(frozen=True, eq=False)
class MeasuredBatch:
    """The rows of a batch (:data:`rows.SCHEMA`) and the maps that are kept of it."""

    rows: pa.Table
    maps: pa.Table


def measure(subject: Subject, batch: Batch) -> MeasuredBatch:
    """Bound and attack every sample of a batch, in all settings.

    The same batch gives the same rows, timings aside. A sample that fails does not
    end the batch: what remains when the batch is halved again and again is recorded
    with its error, its numbers null. What was out of memory is tried once more before.

    Raises:
        KinkError: the model is not smooth, which is no fault of a sample.
    """
    rows: list[Fields] = []
    maps: list[Fields] = []
    steps = Steps(batch.number, len(subject.attributions) * expected(subject.settings))
    for name in subject.attributions:
        _attempt(subject, name, batch, (rows, maps), steps)
    return MeasuredBatch(table(rows, SCHEMA), table(maps, MAPS_SCHEMA))


def failed(settings: AuditSettings, batch: Batch, error: str) -> MeasuredBatch:
    """The rows of a batch of which nothing could be measured."""
    names = [each.name for each in settings.attributions]
    rows = [row for name in names for row in _failed(settings, name, batch, error)]
    return MeasuredBatch(table(rows, SCHEMA), MAPS_SCHEMA.empty_table())


def _attempt(
    subject: Subject,
    name: str,
    batch: Batch,
    found: tuple[list[Fields], list[Fields]],
    steps: Steps,
    again: bool = False,
) -> None:
    try:
        with climbs_kept():
            rows, maps = _measured(subject, name, batch, steps)
    except KinkError as error:
        raise subject.kinked(error) from error
    except Exception as error:
        if _no_memory(error) and not again:
            # Others may have had it for a while, and halves would be rounded otherwise.
            steps.expect(expected(subject.settings))
            _attempt(subject, name, batch, found, steps, again=True)
            return
        if len(batch) > 1:
            for half in batch.halves():
                steps.expect(expected(subject.settings))
                _attempt(subject, name, half, found, steps)
            return
        text = without_addresses(f"{type(error).__name__}: {error}")[:_LONGEST]
        rows, maps = _failed(subject.settings, name, batch, text), []
    found[0].extend(rows)
    found[1].extend(maps)


def _no_memory(error: Exception) -> bool:
    """Whether memory was refused, by Python, a device or PyTorch's allocator."""
    refused = isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError))
    return refused or "DefaultCPUAllocator" in str(error)


def _failed(settings: AuditSettings, name: str, batch: Batch, error: str) -> list[Fields]:
    every = [row for ball in settings.balls for row in _identity(batch, name, ball)]
    return [{**row, "error": error, "bounds": [], "attacks": []} for row in every]


def _identity(batch: Batch, name: str, ball: Ball) -> list[Fields]:
    """The columns that are known beforehand."""
    names = batch.ids or [None] * len(batch)
    return [
        {
            "sample": sample,
            "id": called,
            "batch": batch.number,
            "label": label,
            "attribution": name,
            "ball": ball.name,
            "epsilon": ball.epsilon,
            "features": batch.x[0].numel(),
        }
        for sample, called, label in zip(
            batch.indices.tolist(), names, batch.labels.tolist(), strict=True
        )
    ]


def _measured(
    subject: Subject, name: str, batch: Batch, steps: Steps
) -> tuple[list[Fields], list[Fields]]:
    """Rows and maps of one attribution, all samples at once."""
    settings, attribution = subject.settings, subject.attributions[name]
    methods = settings.claims or ()
    x = subject.place(check_inputs(batch.x))
    yours = subject.originals.get(name)
    # What is explained is what the user's network predicts.
    target = attribution.targets(x) if yours is None else yours.targets(x)
    clean = attribution(x, target)
    prey = Prey(attribution, x, target, clean, top(settings, clean[0].numel()))
    own = None if yours is None else replace(prey, attribution=yours, clean=yours(x, target))
    common = _common(subject, name, batch, prey)
    balls = [batch.held(ball, x) for ball in settings.balls]
    questions = [Question(attribution, x, ball, target, wanted=methods) for ball in balls]
    # What needs no slopes is asked of the network that people run.
    of_values = (
        questions if yours is None else [replace(each, attribution=yours) for each in questions]
    )
    for about, slopes in ((questions, True), (of_values, False)):
        own_methods = [method for method in methods if method.needs_slopes == slopes]
        prepared(about, own_methods, lambda doing: steps.next(f"{name}, all balls, {doing}"))
    rows: list[Fields] = []
    maps: list[Fields] = []
    for ball, question, of_value in zip(balls, questions, of_values, strict=True):
        say = partial(_in_ball, steps, f"{name}, {ball.name} {ball.epsilon:g}")
        asked = put(question, methods, say, of_value)
        bounds = bound_records(asked, methods, say)
        attacks = subject.attacks(name, x, ball)
        attacked = attack_all(prey, ball, attacks, YOURS if own is None else COPY, say)
        earnest = attacked if own is None else _on_yours(settings, own, ball, attacked, say)
        apart = None if own is None else _apart(prey, own, ball)
        averaged = on_averaged(settings, own or prey, ball, bounds, say)
        reasons: list[list[Fields]] | None = None
        if settings.keep is not None:
            known = [*attacked.deltas, *earnest.deltas]
            reasons = Lists(settings, known).records(asked, methods, bounds, say)
        here = []
        for i, identity in enumerate(_identity(batch, name, ball)):
            by_subject = {
                YOURS if own is None else COPY: attacked,
                YOURS: earnest,
                AVERAGED: averaged,
            }
            mark_exceeded(
                bounds[i],
                {name: found.strongest[i] for name, found in by_subject.items()},
                {name: found.errors[i] for name, found in by_subject.items()},
            )
            records = [*attacked.records[i], *averaged.records[i]]
            row = {
                **identity,
                **common[i],
                "strongest": attacked.strongest[i],
                "yours": earnest.strongest[i],
                "averaged": averaged.strongest[i],
                "bounds": bounds[i],
                "attacks": records if own is None else [*records, *earnest.records[i]],
                "reasons": None if reasons is None else reasons[i],
            }
            if apart is not None:
                row["fidelity"] = {**row["fidelity"], "ball_degrees": apart[i]}
            here.append(row)
        for row in here:
            _refuse_nan(row, f"sample {row['sample']}")
        rows += here
        if attacked.best is not None:
            maps += kept_maps(settings.maps, here, prey, attacked.best)
    return rows, maps


def _common(subject: Subject, name: str, batch: Batch, prey: Prey) -> list[Fields]:
    """What is the same in all balls: predictions, and how faithful a smooth copy is."""
    lengths = norm(prey.clean).tolist()
    rows: list[Fields] = [
        {
            "scores": prey.clean[0].numel(),
            "prediction": guess,
            "target": guess,
            "correct": None if label == UNKNOWN else guess == label,
            "attribution_norm": length,
        }
        for guess, label, length in zip(
            prey.target.tolist(), batch.labels.tolist(), lengths, strict=True
        )
    ]
    if not subject.originals:
        return rows
    of = {id(subject.model): subject.originals[name], id(subject.audited): prey.attribution}
    found = fidelity(subject.model, subject.audited, prey.x, lambda model: of[id(model)])
    columns = {
        "label": found.labels_agree,
        "logits": found.logits,
        "attribution": found.attribution,
        "degrees": found.degrees,
    }
    return [{**row, "fidelity": own} for row, own in zip(rows, unstacked(columns), strict=True)]


def _in_ball(steps: Steps, where: str, doing: str) -> None:
    steps.next(f"{where}, {doing}")


def _on_yours(settings: AuditSettings, own: Prey, ball: Ball, attacked: Found, say: Say) -> Found:
    """Attack the network that the smooth copy stands for, also with what was found on the copy."""
    attacks: dict[str, Attack] = {
        name: attack for name, attack in settings.made_own_attacks.items() if attack.applies(ball)
    }
    if attacked.deltas:
        attacks["transferred"] = Transferred(attacked.deltas)
    return attack_all(own, ball, attacks, YOURS, lambda name: say(f"{name} on your network"))


def _apart(prey: Prey, own: Prey, ball: Ball) -> list[float]:
    """The largest angle between the maps of copy and network at random points of the ball."""
    angles = []
    for seed in range(_POINTS):
        point = prey.x + ball.project(ball.sample(prey.x, seed), prey.x)
        maps = (each.attribution(point, prey.target) for each in (prey, own))
        angles.append(angle_degrees(*maps))
    found: list[float] = torch.stack(angles).amax(0).tolist()
    return found


def _refuse_nan(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_nan(item, where if isinstance(item, (dict, list)) else f"{where}: {name}")
    elif isinstance(value, list):
        for item in value:
            _refuse_nan(item, where)
    elif isinstance(value, float) and math.isnan(value):
        sample, _, column = where.partition(": ")
        raise ModelError(
            sample,
            expected="numbers",
            got=f"NaN in {column}",
            remedy="use dtype float64, a smaller ball, or leave the sample out",
        )
