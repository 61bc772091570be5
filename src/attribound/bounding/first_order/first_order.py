"""Sections 3 and 4 of the paper: the bound of every example, from linearisation to angle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rich.progress import track
from torch import Tensor

from attribound.attributions import Attribution, Linearization
from attribound.balls import LpBall
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.bounding.cosine import cosine_and_degrees
from attribound.bounding.first_order.adjusted import adjusted
from attribound.bounding.first_order.label_constraint import label_constraint
from attribound.bounding.first_order.sensitivity import FirstOrder, Sensitivity, sensitivity
from attribound.bounding.first_order.unit_balls import UnitBalls
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Bound, Claim, Status, join

Result = TypeVar("Result")


def first_order(
    attribution: Attribution,
    x: Tensor,
    ball: LpBall,
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
    balls: Sequence[LpBall],
    target: Target = None,
    method: FirstOrder | None = None,
) -> list[Bound]:
    """:func:`first_order` in several balls, with one linearisation and one solution a norm.

    Exactly what single calls give. The ``products`` of each bound are those that it
    rests on, shared ones included.
    """
    settings = method or FirstOrder()
    for ball in balls:
        if not isinstance(ball, LpBall):
            raise InputError(
                "ball",
                expected="a ball",
                got=repr(ball),
                remedy="use e.g. attribound.L2Ball(0.1) or attribound.LinfBall(8 / 255)",
            )
        ball.check_inside(check_inputs(x))

    def solve(part: Attribution, rows: Tensor, labels: Tensor) -> list[Bound]:
        at_x = part.linearize(rows, labels)
        shared = UnitBalls(at_x.jacobian, settings.solver)
        return [
            assemble(part, rows, at_x, sensitivity(at_x, ball, rows, settings, shared), ball)
            for ball in balls
        ]

    groups = [*in_groups(attribution, x, target, settings, solve)]
    return [join(list(of_ball)) for of_ball in zip(*groups, strict=True)]


def in_groups(
    attribution: Attribution,
    x: Tensor,
    target: Target,
    settings: FirstOrder,
    solve: Callable[[Attribution, Tensor, Tensor], Result],
) -> Iterator[Result]:
    """``solve`` on groups of examples whose graphs fit the memory limit together."""
    x = check_inputs(x)
    labels = attribution.targets(x, target)
    groups = [*attribution.groups(x)]
    for part, rows in track(groups, "bounding", disable=not settings.progress):
        yield solve(part, x[rows], labels[rows])


def assemble(
    attribution: Attribution, x: Tensor, at_x: Linearization, steepness: Sensitivity, ball: LpBall
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
        epsilon=ball.epsilon,
        p=ball.p,
        target=at_x.target,
        claim=Claim.FIRST_ORDER,
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
        status=statuses(
            attribution,
            steepness.status,
            {
                Status.ANGLE_UNBOUNDED: degrees == 180,
                Status.ZERO_ATTRIBUTION: length == 0,
                Status.MISCLASSIFIED: label.misclassified if label else length < 0,
            },
        ),
    )


def statuses(
    attribution: Attribution, solver: tuple[Status, ...], reservations: dict[Status, Tensor]
) -> tuple[Status, ...]:
    """The solver's status of each example, with the reservations that apply to it."""
    common = Status.KINKED if attribution.kinked else Status.CONVERGED
    result = [status | common for status in solver]
    for flag, applies in reservations.items():
        for row in applies.nonzero().flatten().tolist():
            result[row] |= flag
    return tuple(result)
