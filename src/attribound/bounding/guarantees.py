"""``bound`` and ``bounds``: how far an attribution can move, under the claim of your choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import LpBall
from attribound.basics.errors import InputError
from attribound.bounding.calibrated import Calibration
from attribound.bounding.certified import Certified, certify
from attribound.bounding.first_order import FirstOrder, first_order
from attribound.bounding.mean_value import Known, MeanValue, mean_value_bound
from attribound.bounding.restate import restate
from attribound.networks.inputs import Target, check_inputs
from attribound.results import Attacked, Bound, Bounds, Claim

Method = FirstOrder | MeanValue | Certified
ClaimName = str | Claim
Settings = TypeVar("Settings")

_METHODS: dict[Claim, type[Method]] = {
    Claim.FIRST_ORDER: FirstOrder,
    Claim.MEAN_VALUE: MeanValue,
    Claim.CERTIFIED: Certified,
}


def bound(  # noqa: PLR0913 - the names users type
    attribution: Attribution,
    x: Tensor,
    ball: LpBall,
    target: Target = None,
    method: Method | None = None,
    *,
    claim: ClaimName | None = None,
    calibration: Calibration | None = None,
    attacked: Sequence[Attacked] = (),
) -> Bound:
    """Bound how far the attribution of each example can move in ``ball``.

    ``claim`` says what the number shall promise (see :class:`Claim`):
    ``"first_order"``, the paper's, holds if the attribution is linear in the ball;
    ``"mean_value"`` needs no linearity, but a search; ``"calibrated"`` holds with a
    stated probability against the attack of its calibration; ``"certified"`` is proved,
    for sequential smooth networks.

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)``.
        x: inputs ``(batch, *features)``; examples are treated one by one.
        ball: the perturbations, e.g. ``ab.L2Ball(0.1)``.
        target: labels to explain; default: the predicted class.
        method: tolerances, effort, limits, progress: ``ab.FirstOrder()``,
            ``ab.MeanValue()`` or ``ab.Certified()``.
        claim: default: that of ``method``, else ``"first_order"``.
        calibration: for ``"calibrated"``: from ``ab.calibrate`` or ``Calibration.load``.
        attacked: attacks on the same inputs; a mean-value bound is not below them.

    Returns:
        One row per example; its ``repr`` is a table.
    """
    if claim is None:
        kinds = {kind: each for each, kind in _METHODS.items()}
        claim = kinds.get(type(method), Claim.FIRST_ORDER) if method else Claim.FIRST_ORDER
    wanted = Claim.named(claim)
    methods = {}
    if method is not None:
        base = calibration.provenance.claim if calibration else wanted
        methods = {base if wanted is Claim.CALIBRATED else wanted: method}
    return bounds(
        attribution,
        x,
        ball,
        target,
        claims=[wanted],
        methods=cast("Mapping[ClaimName, Method]", methods),
        calibration=calibration,
        attacked=attacked,
    )[wanted]


def bounds(  # noqa: PLR0913 - the names users type
    attribution: Attribution,
    x: Tensor,
    ball: LpBall,
    target: Target = None,
    *,
    claims: Sequence[ClaimName] = ("first_order", "mean_value"),
    methods: Mapping[ClaimName, Method] | None = None,
    calibration: Calibration | None = None,
    attacked: Sequence[Attacked] = (),
    first: Bound | None = None,
) -> Bounds:
    """The bounds of several claims at once, sharing work, with the cost of each.

    Args:
        attribution: g.
        x: inputs ``(batch, *features)``.
        ball: the perturbations.
        target: labels to explain; default: the predicted class.
        claims: which, e.g. ``["first_order", "mean_value", "certified"]``.
        methods: settings by claim, where not the defaults; a calibrated bound uses those
            of its base.
        calibration: needed for ``"calibrated"``.
        attacked: attacks on the same inputs; a mean-value bound is not below them.
        first: the first-order bound of the same inputs, ball and settings, if it was
            computed before; it then costs nothing.
    """
    wanted = [Claim.named(claim) for claim in claims]
    settings = _check(wanted, dict(methods or {}), calibration)
    x = check_inputs(x)
    labels = attribution.targets(x, target)
    shared = _Shared(attribution, x, ball, labels, settings, tuple(attacked), calibration)
    if first is not None:
        _check_first(first, ball, labels)
        shared.made[Claim.FIRST_ORDER], shared.seconds[Claim.FIRST_ORDER] = first, 0.0
    if calibration is not None:
        calibration.check(attribution, ball, settings[calibration.provenance.claim])
    made = {claim.name.lower(): shared.bound(claim) for claim in wanted}
    return Bounds(made, {claim.name.lower(): shared.seconds[claim] for claim in wanted})


def _check(
    claims: list[Claim], methods: dict[ClaimName, Method], calibration: Calibration | None
) -> dict[Claim, Method]:
    """The settings of every claim; refuses claims that cannot be made."""
    for claim in claims:
        if claim not in _METHODS and claim is not Claim.CALIBRATED:
            raise InputError(
                "claim",
                expected="one of first_order, mean_value, calibrated, certified",
                got=claim.name.lower(),
                remedy="adjusted values are in every Bound; attained ones come from attacks",
            )
    if not claims:
        raise InputError(
            "claims",
            expected="at least one claim",
            got="none",
            remedy='e.g. claims=["first_order", "mean_value"]',
        )
    if (Claim.CALIBRATED in claims) != (calibration is not None):
        names = ", ".join(claim.name.lower() for claim in claims)
        raise InputError(
            "calibration",
            expected="a calibration exactly if the claim is 'calibrated'",
            got=f"{'one' if calibration else 'none'} for {names}",
            remedy="pass calibration=attribound.calibrate(attribution, samples, ball)",
        )
    settings: dict[Claim, Method] = {claim: kind() for claim, kind in _METHODS.items()}
    for name, method in methods.items():
        claim = Claim.named(name)
        if claim not in _METHODS or not isinstance(method, _METHODS[claim]):
            kind = _METHODS[claim].__name__ if claim in _METHODS else "no settings of its own"
            raise InputError(
                "method",
                expected=f"{kind} for the claim {claim.name.lower()}",
                got=type(method).__name__,
                remedy="each claim has its own settings: FirstOrder, MeanValue, Certified",
            )
        settings[claim] = method
    mean_value = settings[Claim.MEAN_VALUE]
    if Claim.FIRST_ORDER not in map(Claim.named, methods) and isinstance(mean_value, MeanValue):
        settings[Claim.FIRST_ORDER] = mean_value.first_order
    return settings


def _check_first(first: Bound, ball: LpBall, target: Tensor) -> None:
    """Refuse a first-order bound of something else, as far as that can be seen."""
    same = (first.epsilon, first.p, first.claim) == (ball.epsilon, ball.p, Claim.FIRST_ORDER)
    if not same or first.target.tolist() != target.tolist():
        raise InputError(
            "first",
            expected=f"the {Claim.FIRST_ORDER} bound of these {len(target)} examples in {ball}",
            got=f"a {first.claim} bound of {len(first)} examples, epsilon={first.epsilon:g}, "
            f"p={first.p:g}",
            remedy="leave it out to have it computed",
        )


@dataclass(eq=False)
class _Shared:
    """Bounds of the same examples, each computed once however many claims rest on it."""

    attribution: Attribution
    x: Tensor
    ball: LpBall
    target: Tensor
    settings: dict[Claim, Method]
    attacked: tuple[Attacked, ...]
    calibration: Calibration | None
    made: dict[Claim, Bound] = field(default_factory=dict)
    seconds: dict[Claim, float] = field(default_factory=dict)

    def bound(self, claim: Claim) -> Bound:
        """The bound under ``claim``, from memory if it is there."""
        if claim not in self.made:
            rests_on = [self.bound(base) for base in self._rests_on(claim)]
            start = time.perf_counter()
            self.made[claim] = _BUILDERS[claim](self, *rests_on)
            self.seconds[claim] = time.perf_counter() - start
        return self.made[claim]

    def _rests_on(self, claim: Claim) -> list[Claim]:
        return [] if claim in (Claim.FIRST_ORDER, Claim.CALIBRATED) else [Claim.FIRST_ORDER]

    def method(self, kind: type[Settings]) -> Settings:
        """The settings of that kind."""
        return next(method for method in self.settings.values() if isinstance(method, kind))


def _first_order(shared: _Shared) -> Bound:
    method = shared.method(FirstOrder)
    return first_order(shared.attribution, shared.x, shared.ball, shared.target, method)


def _mean_value(shared: _Shared, first: Bound) -> Bound:
    method = shared.method(MeanValue)
    same = method.first_order == shared.method(FirstOrder)
    known = Known(shared.attacked, first if same else None)
    return mean_value_bound(shared.attribution, shared.x, shared.ball, shared.target, method, known)


def _calibrated(shared: _Shared) -> Bound:
    calibration = shared.calibration
    assert calibration is not None
    # The base must be computed as for the calibration: without attacks of this call.
    kept: dict[Claim, Bound] = {
        claim: made for claim, made in shared.made.items() if claim is Claim.FIRST_ORDER
    }
    blind = replace(shared, attacked=(), made=kept, seconds={}) if shared.attacked else shared
    base = blind.bound(calibration.provenance.claim)
    value = calibration.apply(shared.attribution, base, shared.ball)
    source = tuple(
        f"{calibration.factor_of(label):.4g} x {base.claim}" for label in base.target.tolist()
    )
    return restate(base, value, Claim.CALIBRATED, source, base.products)


def _certified(shared: _Shared, first: Bound) -> Bound:
    method = shared.method(Certified)
    found = certify(shared.attribution, shared.x, shared.ball, shared.target, method)
    return restate(first, found.value, Claim.CERTIFIED, found.source, first.products)


_BUILDERS: dict[Claim, Callable[..., Bound]] = {
    Claim.FIRST_ORDER: _first_order,
    Claim.MEAN_VALUE: _mean_value,
    Claim.CALIBRATED: _calibrated,
    Claim.CERTIFIED: _certified,
}
