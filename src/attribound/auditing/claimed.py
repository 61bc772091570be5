"""The bounds of some samples in one ball, under every claim that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor

from attribound.auditing.subject import Subject, methods
from attribound.balls import LpBall
from attribound.basics.errors import AttriboundError
from attribound.bounding.guarantees import bounds
from attribound.results import Bound

Row = dict[str, object]
_ANGLE_TOLERANCE = 1e-4  # rounding, as for attribound.validate


@dataclass(frozen=True, eq=False)
class Claimed:
    """A bound, or why there is none, and the seconds it took for all samples."""

    bound: Bound | None
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """Samples of one attribution in one ball.

    Attributes:
        x: where the model is.
        target: the classes explained.
        first: their first-order bound, which all claims rest on.
        first_seconds: this ball's share of the time it took.
    """

    subject: Subject
    name: str
    ball: LpBall
    x: Tensor
    target: Tensor
    first: Bound
    first_seconds: float


def claimed(task: Task) -> dict[str, Claimed]:
    """Every claim of the settings, sharing work.

    A claim that cannot be made here (a certificate of a network that has none, a
    calibration for something else) says why instead; the others are not touched.
    """
    subject, settings = task.subject, task.subject.settings
    attribution = subject.attributions[task.name]
    wanted = list(settings.claims or ())
    found: dict[str, Claimed] = {}
    calibration = None
    if "calibrated" in wanted:
        own = subject.calibrations[task.name, task.ball]
        if isinstance(own, str):
            found["calibrated"] = Claimed(None, own)
        else:
            calibration = own

    def make(claims: list[str]) -> None:
        made = bounds(
            attribution,
            task.x,
            task.ball,
            task.target,
            claims=claims,
            methods=methods(settings),
            calibration=calibration if "calibrated" in claims else None,
            first=task.first,
        )
        for claim in claims:
            found[claim] = Claimed(made[claim], seconds=made.seconds[claim])

    # Together, because a calibrated bound may rest on the mean-value one.
    searched = [claim for claim in wanted if claim != "certified" and claim not in found]
    if searched:
        make(searched)
    if "first_order" in found:
        found["first_order"] = Claimed(found["first_order"].bound, seconds=task.first_seconds)
    if "certified" in wanted:
        try:
            make(["certified"])
        except AttriboundError as error:
            found["certified"] = Claimed(None, str(error))
    return {claim: found[claim] for claim in wanted}


def first_order_columns(first: Bound) -> list[Row]:
    """What every row has of the first-order bound, claimed or not."""
    columns = {
        "attribution_norm": first.attribution_norm,
        "xi_lower": first.xi.lower,
        "xi_upper": first.xi.upper,
        "adjusted": first.adjusted,
        "adjusted_cosine": first.adjusted_cosine,
        "adjusted_degrees": first.adjusted_degrees,
    }
    return unstacked(columns)


def claim_columns(claim: str, made: Claimed, count: int) -> list[Row]:
    """The columns of one claim for each of ``count`` samples."""
    bound = made.bound
    if bound is None:
        return [{f"{claim}_status": f"does not apply: {made.reason}"} for _ in range(count)]
    rows = unstacked(
        {
            claim: bound.euclidean,
            f"{claim}_cosine": bound.cosine,
            f"{claim}_degrees": bound.degrees,
            f"{claim}_products": bound.products,
        }
    )
    for row, status, source in zip(rows, bound.status, bound.source, strict=True):
        row[f"{claim}_status"] = str(status)
        row[f"{claim}_source"] = source
        row[f"{claim}_seconds"] = made.seconds / count
    return rows


def unstacked(columns: dict[str, Tensor]) -> list[Row]:
    """Tensors of one value a sample as one row a sample."""
    lists = [cast("list[object]", column.detach().cpu().tolist()) for column in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def brackets(row: Row, claims: list[str]) -> Row:
    """Which bounds of a row the best attack exceeded: as :class:`Validation` says it."""
    attack, angle = row.get("attack"), row.get("attack_degrees")
    found: Row = {}
    if attack is None:
        return found
    for claim in ("adjusted", *claims):
        if (bound := row.get(claim)) is None:
            continue
        found[f"{claim}_broken"] = cast("float", attack) > cast("float", bound)
        if claim != "adjusted":
            limit = cast("float", row[f"{claim}_degrees"]) + _ANGLE_TOLERANCE
            found[f"{claim}_degrees_broken"] = cast("float", angle) > limit
    return found
