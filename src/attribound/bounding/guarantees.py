"""``bound`` and ``bounds``: how far an attribution can move, under the claim of your choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor

from attribound.attributions import Attribution
from attribound.attributions.base import check_attribution
from attribound.balls import Ball, check_ball
from attribound.basics.errors import InputError
from attribound.bounding.method import Method, Question
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Attacked, Bound, Bounds, Claim, claim_named, claims
from attribound.results.attacked import check_attacked
from attribound.values import from_spec


class Explainer(Protocol):
    """What an object of Captum's has."""

    @property
    def attribute(self) -> Callable[..., Any]:
        """Computes maps."""


#: An attribution, a function that is one, or an object of Captum's.
Explained = Attribution | Callable[[Tensor, Tensor], Tensor] | Explainer
#: A claim's name, a text with settings (``"mean_value:shells=2"``), or its method.
ClaimOrMethod = str | Claim | Method


def bound(  # noqa: PLR0913 - the names users type
    attribution: Explained,
    x: Tensor,
    ball: Ball,
    target: Target = None,
    method: Method | None = None,
    *,
    claim: ClaimOrMethod | None = None,
    attacked: Sequence[Attacked] = (),
) -> Bound:
    """Bound how far the attribution of each example can move in ``ball``.

    ``claim`` says what the number shall promise, ``method`` how it is computed:
    ``"first_order"`` (``ab.FirstOrder()``), the paper's, holds if the attribution is linear in
    the ball; ``"mean_value"`` (``ab.MeanValue()``) needs no linearity, but a search; a
    calibration holds with a stated probability against its attack; ``"certified"``
    (``ab.Certified()``) is proved, for sequential networks, smooth or of ReLUs; ``"smoothed"``
    (``ab.Smoothed()``) is proved of the noise-averaged map of any network, up to the luck of its
    draws. ``ab.claims()`` lists all.

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)``, a function ``fn(x, target)``, or an
            object of Captum's.
        x: inputs ``(batch, *features)``; examples are treated one by one.
        ball: the perturbations, e.g. ``ab.L2Ball(0.1)``.
        target: labels to explain; default: the predicted class.
        method: tolerances, effort, limits, progress; or a calibration, from
            ``ab.calibrate`` or ``Calibration.load``.
        claim: default: that of ``method``, else ``"first_order"``.
        attacked: attacks on the same inputs; a mean-value bound is not below them.

    Returns:
        One row per example; its ``repr`` is a table.
    """
    made = bounds(attribution, x, ball, target, claims=[chosen(method, claim)], attacked=attacked)
    return next(iter(made.values()))


def bounds(
    attribution: Explained,
    x: Tensor,
    ball: Ball,
    target: Target = None,
    *,
    claims: Sequence[ClaimOrMethod] = ("first_order", "mean_value"),
    attacked: Sequence[Attacked] = (),
) -> Bounds:
    """The bounds of several claims at once, sharing work, with the cost of each.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        ball: the perturbations.
        target: labels to explain; default: the predicted class.
        claims: names, or methods where these are not the defaults, e.g.
            ``["first_order", ab.MeanValue(shells=8), calibration]``.
        attacked: attacks on the same inputs; a mean-value bound is not below them.
    """
    methods = tuple(method_of(each) for each in claims)
    check_methods(methods)
    attribution = as_attribution(attribution)
    x = check_inputs(x)
    check_attacked(attacked)
    check_ball(ball, x)
    labels = attribution.targets(x, target)
    question = Question(
        attribution, x, ball, labels, tuple(attacked), methods, predicted=target is None
    )
    made = {method.claim.name: question.bound(method) for method in methods}
    seconds = {method.claim.name: question.seconds[method] for method in methods}
    return Bounds(made, seconds)


def as_attribution(thing: Explained) -> Attribution:
    """``thing`` as an attribution; a network is refused."""
    return from_spec(check_attribution(thing), Attribution)


def chosen(method: Method | None, claim: ClaimOrMethod | None) -> Method:
    """The method that is meant where both may be given; first-order where neither is."""
    if method is None:
        return method_of("first_order" if claim is None else claim)
    made = method_of(method)
    if claim is not None:
        own, named = made.claim, method_of(claim).claim
        if own is not named:
            raise InputError(
                "method",
                expected=f"a method of the claim {named.name}",
                got=f"{type(method).__name__}, of the claim {own.name}",
                remedy="leave the claim out: a method has its own",
            )
    return made


def method_of(claim: ClaimOrMethod) -> Method:
    """The method that a claim's name, a text with settings, or something that has one stands for.

    Raises:
        InputError: there is no such claim, or no method computes it.
    """
    if isinstance(claim, Claim) or (isinstance(claim, str) and ":" not in claim):
        named = claim_named(claim)
        if named.method is None:
            raise InputError(
                "claim",
                expected=f"one of {', '.join(each.name for each in claims() if each.method)}",
                got=named.name,
                remedy="attained values come from attacks",
            )
        return from_spec(named.method, Method)
    return from_spec(claim, Method)


def check_methods(methods: Sequence[Method]) -> None:
    """Refuse none, and two of the same claim."""
    if not methods:
        raise InputError(
            "claims",
            expected="at least one claim",
            got="none",
            remedy='e.g. claims=["first_order", "mean_value"]',
        )
    names = Counter(method.claim.name for method in methods)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InputError(
            "claims",
            expected="each claim only once",
            got=f"{', '.join(twice)} more than once",
            remedy="leave out all but one",
        )
