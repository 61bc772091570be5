"""Appendix E, corrected: the largest radius that keeps the bound within a threshold.

The paper's formula for cosine distance lost a square; here
epsilon = |g| sqrt(1 - (1 - omega)^2) / sensitivity.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import LpBall, check_number, check_order
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.bounding.first_order.first_order import in_groups, statuses
from attribound.bounding.first_order.sensitivity import FirstOrder, sensitivity
from attribound.networks.inputs import Target
from attribound.results import Claim, MaxEpsilon, Status, join

_LARGEST = {"euclidean": math.inf, "cosine": 1.0, "degrees": 90.0}


def max_epsilon(
    attribution: Attribution,
    x: Tensor,
    norm: float = 2,
    target: Target = None,
    method: FirstOrder | None = None,
    **threshold: float,
) -> MaxEpsilon:
    """The largest radius at which :func:`bound` stays within a threshold, per example.

    Bounding at the returned radius gives the threshold back. At ``cosine=1`` and
    ``degrees=90`` it is a supremum: there the angle becomes unbounded. Infinite
    where the attribution does not move to first order.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        norm: order p of the ball: 2, ``math.inf``, or any other p >= 1.
        target: labels to explain; default: the predicted class.
        method: tolerances, limits, progress.
        threshold: exactly one of ``euclidean=`` (distance), ``cosine=`` (distance, at
            most 1) and ``degrees=`` (at most 90).
    """
    p = check_order(norm)
    kind, omega = _check_threshold(threshold)
    settings = method or FirstOrder()

    def solve(part: Attribution, rows: Tensor, labels: Tensor) -> MaxEpsilon:
        at_x = part.linearize(rows, labels)
        steepness = sensitivity(at_x, LpBall(1.0, p), rows, settings)
        length = _norm(at_x.value)
        deviation = _deviation(kind, omega, length)
        epsilon = deviation / steepness.value
        still = (steepness.value == 0) & ((kind == "euclidean") | (length > 0))
        epsilon = torch.where(still, torch.full_like(epsilon, math.inf), epsilon)
        no_angle = (length == 0) & (kind != "euclidean")
        epsilon = torch.where(no_angle, torch.zeros_like(epsilon), epsilon)
        return MaxEpsilon(
            epsilon=epsilon,
            p=p,
            threshold=f"{kind} <= {omega:g}",
            target=at_x.target,
            claim=Claim.FIRST_ORDER,
            source=steepness.source,
            status=statuses(part, steepness.status, {Status.ZERO_ATTRIBUTION: length == 0}),
        )

    result: MaxEpsilon = join([*in_groups(attribution, x, target, settings, solve)])
    return result


_norm = norm  # the parameter of max_epsilon hides it


def _check_threshold(threshold: dict[str, float]) -> tuple[str, float]:
    if len(threshold) != 1 or not threshold.keys() <= _LARGEST.keys():
        raise InputError(
            "threshold",
            expected="exactly one of euclidean=, cosine= and degrees=",
            got=", ".join(threshold) or "none",
            remedy="e.g. max_epsilon(attribution, x, norm=2, degrees=30)",
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
