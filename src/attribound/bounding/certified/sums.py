"""The certificate of sums over groups and of absolute values, from that of the map behind."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from attribound.attributions import Absolute, Grouped
from attribound.basics.rounding import SLACK
from attribound.basics.tensors import norm
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.method import Method, Question
from attribound.results import Bound, Bracket, Status


def of_sums(question: Question, grouped: Grouped | Absolute, method: Method) -> Bound:
    """``|S d| <= |S| |d|``: the bound of the map times the root of the largest group's size.

    Absolute values are no further apart than what they are of: there the factor is one.
    """
    inner = replace(question, attribution=grouped.base, made={}, seconds={})
    made = inner.bound(method)
    scores = grouped.base.revalue(question.x, question.target)
    factor = stretch_above(grouped, scores) if isinstance(grouped, Grouped) else 1.0
    value = made.euclidean * factor
    length = norm(grouped.summed(scores) if isinstance(grouped, Grouped) else scores)
    cosine, degrees = cosine_and_degrees(value, length)
    return replace(
        made,
        euclidean=value,
        adjusted=value,
        cosine=cosine,
        degrees=degrees,
        adjusted_cosine=cosine,
        adjusted_degrees=degrees,
        xi=Bracket(0 * made.xi.lower, made.xi.upper * factor, made.xi.failure_probability),
        values={name: each * factor for name, each in made.values.items()},
        attribution_norm=length,
        status=_statuses(made, degrees == 180, length == 0),
        gap=None,
    )


def stretch_above(grouped: Grouped, scores: Tensor) -> float:
    """The root, from above also after the product with it; one stays one."""
    stretch = grouped.stretch(scores)
    return stretch if stretch == 1 else stretch * (1 + max(SLACK, 4 * _unit(scores)))


def _unit(scores: Tensor) -> float:
    return {2: 2.0**-8, 4: 2.0**-24}.get(scores.element_size(), 2.0**-53)


def _statuses(made: Bound, wide: Tensor, zero: Tensor) -> tuple[Status, ...]:
    drawn = Status.ANGLE_UNBOUNDED | Status.VACUOUS | Status.ZERO_ATTRIBUTION
    rows = zip(made.status, wide.tolist(), zero.tolist(), strict=True)
    return tuple(
        (status & ~drawn)
        | (Status.ANGLE_UNBOUNDED | Status.VACUOUS if open_ else Status.CONVERGED)
        | (Status.ZERO_ATTRIBUTION if nothing else Status.CONVERGED)
        for status, open_, nothing in rows
    )
