"""Appendix E, corrected: the largest radius that keeps the bound within a threshold.

The paper's formula for cosine distance lost a square; here
epsilon = |g| sqrt(1 - (1 - omega)^2) / sensitivity.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import Ball, L2Ball, check_number
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.bounding.first_order.first_order import (
    FIRST_ORDER,
    FirstOrder,
    in_groups,
    statuses,
)
from attribound.bounding.first_order.sensitivity import sensitivity
from attribound.bounding.method import Method, Question
from attribound.networks.inputs import Target, check_inputs
from attribound.results import MaxEpsilon, Status, join

_LARGEST = {"euclidean": math.inf, "cosine": 1.0, "degrees": 90.0}


def largest_epsilon(
    attribution: Attribution,
    x: Tensor,
    ball: Ball | None = None,
    target: Target = None,
    method: Method | None = None,
    **threshold: float,
) -> MaxEpsilon:
    """The largest radius at which :func:`bound` stays within a threshold, per example.

    To first order, or under the claim of a method that knows its bound at every radius, such as
    ``ab.Smoothed()``. Bounding at the returned radius gives the threshold back. At ``cosine=1`` and
    ``degrees=90`` it is a supremum: there the angle becomes unbounded. Infinite
    where the attribution does not move to first order.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        ball: of which kind the balls are, e.g. ``ab.LinfBall(1)``, whose own radius does not
            matter; default: l2 balls. Limits on values are refused: with them nothing is
            proportional to the radius.
        target: labels to explain; default: the predicted class.
        method: tolerances, limits, progress.
        threshold: exactly one of ``euclidean=`` (distance), ``cosine=`` (distance, at
            most 1) and ``degrees=`` (at most 90).
    """
    shape = unit_ball(ball)
    kind, omega = _check_threshold(threshold)
    settings = method or FirstOrder()

    x = check_inputs(x)
    if not isinstance(settings, FirstOrder):
        question = Question(attribution, x, shape, attribution.targets(x, target))
        return settings.largest_radius(question, kind, omega)

    def solve(part: Attribution, rows: slice, labels: Tensor) -> MaxEpsilon:
        at_x = part.linearize(x[rows], labels)
        steepness = sensitivity(at_x, shape.rows(x, rows), x[rows], settings)
        length = norm(at_x.value)
        deviation = _deviation(kind, omega, length)
        epsilon = deviation / steepness.value
        still = (steepness.value == 0) & ((kind == "euclidean") | (length > 0))
        epsilon = torch.where(still, torch.full_like(epsilon, math.inf), epsilon)
        no_angle = (length == 0) & (kind != "euclidean")
        epsilon = torch.where(no_angle, torch.zeros_like(epsilon), epsilon)
        return MaxEpsilon(
            epsilon=epsilon,
            ball=shape,
            threshold=f"{kind} <= {omega:g}",
            target=at_x.target,
            claim=FIRST_ORDER,
            subject=part.subject,
            source=steepness.source,
            status=statuses(part, steepness.status, {Status.ZERO_ATTRIBUTION: length == 0}),
        )

    result: MaxEpsilon = join([*in_groups(attribution, x, target, settings, solve)])
    return result


def unit_ball(ball: Ball | None) -> Ball:
    """The ball of radius one of a kind without limits on values; l2 if none is given."""
    shape = L2Ball(1.0) if ball is None else ball
    if not isinstance(shape, Ball) or shape.limited:
        raise InputError(
            "ball",
            expected="a ball without limits on values, such as attribound.LinfBall(1)",
            got=repr(ball),
            remedy="leave low and high out: what is safe in the whole ball is safe in its part",
        )
    return shape.at_radius(1.0)


def _check_threshold(threshold: dict[str, float]) -> tuple[str, float]:
    if len(threshold) != 1 or not threshold.keys() <= _LARGEST.keys():
        raise InputError(
            "threshold",
            expected="exactly one of euclidean=, cosine=, degrees= and keep=",
            got=", ".join(threshold) or "none",
            remedy="e.g. max_epsilon(attribution, x, degrees=30)",
        )
    ((kind, value),) = threshold.items()
    omega = check_number(kind, value)
    if not 0 <= omega <= _LARGEST[kind] or omega == math.inf:
        raise InputError(
            kind,
            expected=f"a number from 0 to {_LARGEST[kind]:g}",
            got=repr(value),
            remedy="larger thresholds limit nothing",
        )
    return kind, omega


def _deviation(kind: str, omega: float, length: Tensor) -> Tensor:
    """The Euclidean deviation at which the threshold is reached (inverse of Corollary 2)."""
    if kind == "euclidean":
        return torch.full_like(length, omega)
    if kind == "cosine":
        return length * math.sqrt(omega * (2 - omega))
    return length * math.sin(math.radians(omega))
