"""What a number promises, and what is to be said against it."""

from __future__ import annotations

import enum
import importlib
from dataclasses import dataclass
from typing import Any

from attribound.basics import rooms
from attribound.basics.errors import InputError
from attribound.values import register


class Moves(str, enum.Enum):
    """What is known of a bound at a radius that was not measured.

    ``SCALED``: a number times the radius, so known everywhere. ``NESTED``: what holds in a
    ball holds in every smaller one. ``MEASURED``: nothing.
    """

    SCALED = "scaled"
    NESTED = "nested"
    MEASURED = "measured"


@dataclass(frozen=True, eq=False)
class Claim:
    """What a number promises: all that is to be said of it, anywhere, is said here.

    Attributes:
        name: in code, settings and rows, e.g. ``mean_value``.
        title: for people.
        order: of tables; the weakest promise first.
        promise: one sentence: what holds, and when it does not.
        method: the class of values that compute it; None for what attacks attain.
        rests_on: names of the claims whose bounds it is made of.
        held: what follows if no attack exceeded it.
        exceeded: what follows if one did.
        expected: an attack may exceed some of these bounds without the promise being broken.
        proves: it holds for every perturbation in the ball by a proof: no search, no assumption
            of linearity. Nothing else is ever called good.
        arithmetic: of which function it speaks, evaluated how; empty if that is not stated.
        moves: what it says at a radius that was not measured.
        colour: of plots.
        symbol: of plots, as plotly calls it.
    """

    name: str
    title: str
    order: int
    promise: str
    method: type[Any] | None = None
    rests_on: tuple[str, ...] = ()
    held: str = ""
    exceeded: str = ""
    expected: bool = False
    proves: bool = False
    arithmetic: str = ""
    moves: Moves = Moves.MEASURED
    colour: str = "#666666"
    symbol: str = "circle"

    def __str__(self) -> str:
        return self.title

    def __repr__(self) -> str:
        return f"<claim {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        """A claim is one object: in another process it is that of the registry there."""
        return claim_named, (self.name, getattr(self.method, "__module__", None))


_claims: dict[str, Claim] = {}


def register_claim(claim: Claim) -> Claim:
    """Enter a claim; its method can then be called by the claim's name in settings.

    Raises:
        InputError: there is another claim of that name.
    """
    before = _claims.get(claim.name)
    if before is not None and before.promise != claim.promise:
        raise InputError(
            "claim",
            expected="a name that is free",
            got=f"{claim.name!r}, which is: {before.promise}",
            remedy="choose another",
        )
    if claim.method is not None:
        register(claim.name)(claim.method)
    _claims[claim.name] = claim
    return claim


def claims() -> tuple[Claim, ...]:
    """Every claim, the weakest promise first; the library's own, imported before or not."""
    rooms.open_all()
    return _sorted()


def claim_of(method: object) -> Claim | None:
    """The claim that a method computes; it was entered with the method's class, if at all."""
    for each in _sorted():
        if each.method is not None and isinstance(method, each.method):
            return each
    return None


def _sorted() -> tuple[Claim, ...]:
    return tuple(sorted(_claims.values(), key=lambda claim: claim.order))


def claim_named(name: str | Claim, module: str | None = None) -> Claim:
    """The claim of that name; ``module`` is imported first if it isn't known yet.

    Raises:
        InputError: there is none.
    """
    if isinstance(name, Claim):
        return name
    if name not in _claims and module is not None:
        importlib.import_module(module)
    key = str(name).replace("-", "_")
    found = rooms.search(lambda: _claims.get(key))
    if found is None:
        raise InputError(
            "claim",
            expected=f"one of {', '.join(claim.name for claim in claims())}",
            got=repr(name),
            remedy="check the spelling; a claim of your own is known once its module is imported",
        )
    return found


ATTAINED = register_claim(
    Claim(
        "attained",
        title="attained",
        order=100,
        promise="Lower bound: a perturbation in the ball that moves the attribution this far.",
    )
)


class Status(enum.Flag):
    """Reservations about one example's result; ``CONVERGED`` when there are none."""

    CONVERGED = 0
    ITERATION_LIMIT = enum.auto()
    ANGLE_UNBOUNDED = enum.auto()
    ZERO_ATTRIBUTION = enum.auto()
    KINKED = enum.auto()
    MISCLASSIFIED = enum.auto()
    VACUOUS = enum.auto()
    INCOMPLETE = enum.auto()
    COPY_DISAGREES = enum.auto()
    ANOTHER_EXPLANATION = enum.auto()
    ON_KINK = enum.auto()
    JUMPS = enum.auto()
    STOPPED = enum.auto()
    MAY_JUMP = enum.auto()
    PROBABILITIES = enum.auto()
    CALIBRATED_WITH = enum.auto()

    def __str__(self) -> str:
        return "+".join(flag.label for flag in self.flags) or "converged"

    @property
    def flags(self) -> tuple[Status, ...]:
        """The single reservations."""
        return tuple(flag for flag in _SENTENCES if flag in self)

    @property
    def label(self) -> str:
        """The name in lower case."""
        return str(self.name).lower().replace("_", "-")

    @property
    def explanation(self) -> str:
        """Each reservation as a sentence with a remedy."""
        return " ".join(_SENTENCES[flag] for flag in self.flags) or "Converged, no reservations."


_SENTENCES = {
    Status.ITERATION_LIMIT: "The spectral solver stopped at its iteration limit: the upper value "
    "is valid but loose; raise max_iterations.",
    Status.ANGLE_UNBOUNDED: "The bound is not smaller than the attribution itself, so that nothing "
    "limits the angle (180 degrees); use a smaller ball.",
    Status.ZERO_ATTRIBUTION: "The attribution is zero and has no direction; check the target and "
    "the input.",
    Status.KINKED: "The model has kinks and was let through on your word: attributions jump and "
    "this number bounds nothing; use attribound.smooth.",
    Status.MISCLASSIFIED: "The target is not the predicted class, so that the label constraint is "
    "void; leave target out to use the prediction.",
    Status.VACUOUS: "The certificate is not smaller than the attribution itself and says nothing "
    "useful; use a smaller ball, a smaller beta, or another claim.",
    Status.INCOMPLETE: "The scores miss the change in the logit by more than 5 % of it: this "
    "bounds a sum over too few steps, not the integral; use as many steps as steps_needed of the "
    "bound says, or the quadrature gauss_legendre.",
    Status.COPY_DISAGREES: "The smooth copy predicts another class than your network, whose class "
    "is explained here; use a larger beta.",
    Status.ANOTHER_EXPLANATION: "The averaged map is another explanation than the attribution at "
    "the input (cosine below .7), of which this number says nothing; use a smaller sigma, or show "
    "the averaged map itself.",
    Status.ON_KINK: "The input lies on a kink of the network: the Jacobian is one of several, and "
    "first order holds to one side of the kink only; move the input a little.",
    Status.JUMPS: "Some neuron is exactly zero at the baseline (networks without biases: all are), "
    "so that integrated gradients jump where it switches and no Jacobian bounds them; use "
    "another baseline, or the claim certified.",
    Status.STOPPED: "The certificate stopped at its limit of nodes or seconds, or with too many "
    "neurons to branch on: it holds, but is not the tightest; raise nodes or seconds, or use a "
    "smaller ball.",
    Status.MAY_JUMP: "The attribution ranks, compares or rounds (topk, sort, >, sign): where that "
    "changes its map jumps, and no derivative bounds a jump; bound the map without it, or use "
    "method=attribound.Smoothed(), which needs no derivatives.",
    Status.PROBABILITIES: "The network ends in softmax, log_softmax or sigmoid: what is explained "
    "is a probability, whose gradient vanishes where the network is sure, and not a logit; leave "
    "the last step out of the model.",
    Status.CALIBRATED_WITH: "The calibration was made with this very sample: it promises something "
    "of others alone; bound samples that it has not seen.",
}
