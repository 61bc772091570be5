"""Sections 3 and 4 of the paper: the bound of every example, from linearisation to angle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rich.progress import track
from torch import Tensor

from attribound.attributions import Attribution, Linearization
from attribound.balls import Ball, check_ball
from attribound.basics.tensors import norm
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.first_order.adjusted import adjusted
from attribound.bounding.first_order.label_constraint import label_constraint
from attribound.bounding.first_order.sensitivity import LinearEffort, Sensitivity, sensitivity
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.bounding.method import Question
from attribound.bounding.restate import counted
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Bound, Claim, Moves, Status, join, register_claim

Result = TypeVar("Result")


@dataclass(frozen=True)
class FirstOrder(LinearEffort):
    """How first-order bounds are computed; see :class:`LinearEffort` for the settings."""

    def bound(self, question: Question) -> Bound:
        """The bound of the paper."""
        asked = question.attribution, question.x, question.ball, question.target
        return first_order(*asked, self)

    def prepare(self, questions: Sequence[Question]) -> None:
        """One linearisation and one solution a norm for all balls."""
        asked = questions[0]
        balls = [each.ball for each in questions]
        start = time.perf_counter()
        made = first_order_in_balls(asked.attribution, asked.x, balls, asked.target, self)
        seconds = (time.perf_counter() - start) / len(questions)
        for each, bound in zip(questions, made, strict=True):
            each.made[self], each.seconds[self] = bound, seconds


FIRST_ORDER = register_claim(
    Claim(
        "first_order",
        title="first-order",
        order=10,
        promise="Upper bound if the attribution were linear in the ball; a direct attack can "
        "exceed it.",
        method=FirstOrder,
        held="That is evidence, no proof: it holds only where attributions are linear.",
        exceeded="Here it is no guarantee: the attributions are not linear enough in these balls.",
        moves=Moves.SCALED,
        colour="#d55e00",
        symbol="circle",
    )
)


def first_order(
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    target: Target = None,
    method: FirstOrder | None = None,
) -> Bound:
    """Bound how far the attribution of each example can move in ``ball``, to first order.

    ``euclidean`` is Theorem 1 (p = 2), the smallest of the dual certificate, Theorem 2
    (where it is cheap) and Corollary 1 (p = inf), of the certificate and Corollary 1
    (p > 2), the largest column (p = 1, exact) or Theorem 1 by inclusion (1 < p < 2).
    The cube takes the ball's value range into account. All of it holds if the
    attribution is linear in the ball, and only then: a direct attack often exceeds
    it. Singular values are taken from above, with the failure probability of the solver.

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)``.
        x: inputs ``(batch, *features)``; examples are treated one by one.
        ball: the perturbations, e.g. ``ab.L2Ball(0.1)``.
        target: labels to explain; default: the predicted class.
        method: tolerances, limits, progress.

    Returns:
        One row per example; its ``repr`` is a table.
    """
    return first_order_in_balls(attribution, x, [ball], target, method)[0]


def first_order_in_balls(
    attribution: Attribution,
    x: Tensor,
    balls: Sequence[Ball],
    target: Target = None,
    method: FirstOrder | None = None,
) -> list[Bound]:
    """:func:`first_order` in several balls, with one linearisation and one solution a norm.

    Exactly what single calls give. The ``products`` of each bound are those that it
    rests on, shared ones included.
    """
    settings = method or FirstOrder()
    x = check_inputs(x)
    for ball in balls:
        check_ball(ball, x)

    def solve(part: Attribution, rows: slice, labels: Tensor) -> list[Bound]:
        at_x = part.linearize(x[rows], labels)
        shared = UnitBalls(at_x.jacobian, settings.solver)
        steps = part.steps_needed(x[rows], labels, at_x.value)
        found = []
        for ball in balls:
            own = ball.rows(x, rows)
            steep = sensitivity(at_x, own, x[rows], settings, shared)
            made = assemble(part, x[rows], at_x, steep, own)
            found.append(counted(made, steps))
        return found

    groups = [*in_groups(attribution, x, target, settings, solve)]
    joined = (join(list(of_ball)) for of_ball in zip(*groups, strict=True))
    return [replace(made, ball=ball) for made, ball in zip(joined, balls, strict=True)]


def in_groups(
    attribution: Attribution,
    x: Tensor,
    target: Target,
    settings: LinearEffort,
    solve: Callable[[Attribution, slice, Tensor], Result],
) -> Iterator[Result]:
    """``solve`` on groups of examples whose graphs fit the memory limit together."""
    x = check_inputs(x)
    labels = attribution.targets(x, target)
    groups = [*attribution.groups(x)]
    for part, rows in track(groups, "bounding", disable=not settings.progress):
        yield solve(part, rows, labels[rows])


def assemble(
    attribution: Attribution, x: Tensor, at_x: Linearization, steepness: Sensitivity, ball: Ball
) -> Bound:
    """The bound of the paper from the sensitivity at ``x``."""
    euclidean, delta = steepness.value, steepness.delta
    raised = adjusted(attribution, x, at_x, [delta, ball.clip(-delta, x)], euclidean)
    length = norm(at_x.value)
    cosine, degrees = cosine_and_degrees(euclidean, length)
    adjusted_cosine, adjusted_degrees = cosine_and_degrees(raised, length)
    label = None
    if attribution.classifier is not None:
        label = label_constraint(attribution.classifier, x, at_x.target, delta)
    return Bound(
        ball=ball,
        target=at_x.target,
        claim=FIRST_ORDER,
        euclidean=euclidean,
        adjusted=raised,
        cosine=cosine,
        degrees=degrees,
        adjusted_cosine=adjusted_cosine,
        adjusted_degrees=adjusted_degrees,
        xi=steepness.spectral.value,
        direction=delta / ball.epsilon,
        source=steepness.source,
        values=steepness.values,
        attribution_norm=length,
        label=label,
        products=steepness.products,
        subject=attribution.subject,
        status=statuses(
            attribution,
            steepness.status,
            {
                Status.ANGLE_UNBOUNDED: degrees == 180,
                Status.ZERO_ATTRIBUTION: length == 0,
                Status.MISCLASSIFIED: label.misclassified if label else length < 0,
                **at_x.reservations(),
            },
        ),
    )


def statuses(
    attribution: Attribution, solver: tuple[Status, ...], reservations: dict[Status, Tensor]
) -> tuple[Status, ...]:
    """The solver's status of each example, with the reservations that apply to it."""
    result = [status | attribution.reserved for status in solver]
    for flag, applies in reservations.items():
        for row in applies.nonzero().flatten().tolist():
            result[row] |= flag
    return tuple(result)
