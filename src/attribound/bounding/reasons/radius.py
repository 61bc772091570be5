"""The largest radius at which a bound is in a threshold, or a list of reasons stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attribound.attacks.displace import By, first_of
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.bounding.first_order import FirstOrder, largest_epsilon, unit_ball
from attribound.bounding.guarantees import ClaimOrMethod, Explained, as_attribution, chosen
from attribound.bounding.method import Method, Question
from attribound.bounding.reasons.averaged import Drawn, drawn
from attribound.bounding.reasons.deciding import decide
from attribound.bounding.reasons.motion import RowMotion
from attribound.bounding.reasons.motions import motions
from attribound.bounding.smoothed import Smoothed
from attribound.bounding.smoothed.reach import reach
from attribound.networks.inputs import Target, check_inputs
from attribound.results import MaxEpsilon, Status

_EXPONENTS = (-30, 30)  # of two: radii that are tried
#: Bisections, by whether a radius costs next to nothing. What 23 of them find is a float32, so that
#: the radius that is returned is one that was tried.
_FINE = {True: 23, False: 6}


def max_epsilon(  # noqa: PLR0913 - the names users type
    attribution: Explained,
    x: Tensor,
    ball: Ball | None = None,
    target: Target = None,
    method: Method | None = None,
    *,
    claim: ClaimOrMethod | None = None,
    keep: int | None = None,
    by: By = "value",
    **threshold: float,
) -> MaxEpsilon:
    """The largest radius at which :func:`bound` stays within a threshold, per example.

    To first order, or under the claim of a method that knows its bound at every radius, such as
    ``ab.Smoothed()``. Bounding at the returned radius gives the threshold back. At ``cosine=1`` and
    ``degrees=90`` it is a supremum: there the angle becomes unbounded. Infinite
    where the attribution does not move to first order.

    With ``keep`` it is the largest radius found at which all of the ``keep`` largest scores stay
    among them, as :func:`reasons` says; it is bisected, so that at the returned radius they do.
    That works under every claim about single radii, too: ``claim="certified"``.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        ball: of which kind the balls are, e.g. ``ab.LinfBall(1)``, whose own radius does not
            matter; default: l2 balls. Limits on values are refused: with them nothing is
            proportional to the radius.
        target: labels to explain; default: the predicted class.
        method: tolerances, limits, progress.
        claim: default: that of ``method``, else ``"first_order"``.
        keep: a number of reasons, in place of a threshold.
        by: how these are ranked, ``value`` or ``absolute``.
        threshold: exactly one of ``euclidean=`` (distance), ``cosine=`` (distance, at
            most 1) and ``degrees=`` (at most 90), without ``keep``.
    """
    attribution, settings = as_attribution(attribution), chosen(method, claim)
    if keep is None:
        return largest_epsilon(attribution, x, ball, target, settings, **threshold)
    if threshold:
        raise InputError(
            "threshold",
            expected="keep= alone, or one of euclidean=, cosine= and degrees=",
            got=f"keep and {', '.join(threshold)}",
            remedy="ask for one after the other",
        )
    x = check_inputs(x)
    shape = unit_ball(ball)
    labels = attribution.targets(x, target)
    clean = attribution(x, labels)
    first_of(clean, keep, by)  # refuses what can't be asked
    question = Question(attribution, x, shape, labels, predicted=target is None)
    status = [Status.KINKED if attribution.kinked else Status.CONVERGED] * len(x)
    if isinstance(settings, FirstOrder):
        found = _to_first_order(settings, question, clean, keep, by)
    elif isinstance(settings, Smoothed):
        found, status = _of_draws(settings, question, keep, by)
    else:
        found = [_searched(settings, question, clean, (row, keep, by)) for row in range(len(x))]
    return MaxEpsilon(
        epsilon=torch.tensor(found, dtype=torch.float64).to(clean),
        ball=shape,
        threshold=f"the {keep} largest by {by} kept",
        target=labels,
        claim=settings.claim,
        source=("reasons",) * len(x),
        status=tuple(status),
        subject=settings.speaks_of(attribution, x, shape).subject,
    )


def _to_first_order(
    method: FirstOrder, question: Question, clean: Tensor, keep: int, by: By
) -> list[float]:
    """One linearisation serves all radii: rows grow in proportion."""
    found = []
    maps = clean.detach().flatten(1).to("cpu", torch.float64)
    for scores, motion in zip(maps, motions(method, question, clean, keep, by), strict=True):
        assert isinstance(motion, RowMotion)

        def sure(radius: float, motion: RowMotion = motion, scores: Tensor = scores) -> bool:
            region = motion.region.shrunk(radius)
            there = replace(motion, whole=radius * motion.whole, region=region)
            return decide(scores, there, keep, by).kept == keep

        found.append(_largest(sure, _FINE[True]))
    return found


def _of_draws(
    method: Smoothed, question: Question, keep: int, by: By
) -> tuple[list[float], list[Status]]:
    """One sample of draws serves all radii; of averaged maps, which may be another explanation."""
    found, status = [], []
    for row, each in enumerate(drawn(method, question, keep, by)):
        x = question.x[row : row + 1]
        own = question.ball.rows(question.x, slice(row, row + 1))

        def sure(radius: float, each: Drawn = each, own: Ball = own, x: Tensor = x) -> bool:
            motion = each.motion(reach(own.at_radius(radius), x, method.sigma).shift)
            return decide(each.scores, motion, keep, by).kept == keep

        found.append(_largest(sure, _FINE[True]))
        status.append(each.status)
    return found, status


def _searched(
    method: Method, question: Question, clean: Tensor, asked: tuple[int, int, By]
) -> float:
    """The question anew at every radius."""
    row, keep, by = asked
    one = slice(row, row + 1)
    own = question.ball.rows(question.x, one)
    scores = clean[row].detach().flatten().to("cpu", torch.float64)

    def sure(radius: float) -> bool:
        there = Question(
            question.attribution.rows(question.x, one),
            question.x[one],
            own.at_radius(radius),
            question.target[one],
            predicted=question.predicted,
        )
        (motion,) = motions(method, there, clean[one], keep, by)
        return decide(scores, motion, keep, by).kept == keep

    return _largest(sure, _FINE[False])


def _largest(sure: Callable[[float], bool], fine: int) -> float:
    """The largest radius found with ``sure``: doubled or halved from 1/16 on, then bisected."""
    exponent = -4
    step = 1 if sure(2.0**exponent) else -1
    while sure(2.0 ** (exponent + step)) == (step > 0):
        exponent += step
        if not _EXPONENTS[0] < exponent < _EXPONENTS[1]:
            return math.inf if step > 0 else 0.0
    low = 2.0 ** min(exponent, exponent + step)
    high = 2 * low
    for _ in range(fine):
        middle = (low + high) / 2
        low, high = (middle, high) if sure(middle) else (low, middle)
    return low
