"""What leaves the library: numbers that say what they claim and how they were obtained."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.tables import cell, render
from attribound.tensors import ratio


class Claim(str, enum.Enum):
    """What a number promises."""

    FIRST_ORDER = "first-order"
    ADJUSTED = "adjusted"
    MEAN_VALUE = "mean-value"
    CALIBRATED = "calibrated"
    CERTIFIED = "certified"
    ATTAINED = "attained"

    def __str__(self) -> str:
        return self.value

    @property
    def meaning(self) -> str:
        """One sentence: what holds, and when it does not."""
        return _MEANINGS[self]


_MEANINGS = {
    Claim.FIRST_ORDER: "Upper bound if the attribution were linear in the ball; "
    "a direct attack can exceed it.",
    Claim.ADJUSTED: "First-order, raised to the deviation seen at two points of the ball; "
    "empirical, a direct attack can exceed it.",
    Claim.MEAN_VALUE: "Upper bound by the mean value theorem; the supremum inside it was searched, "
    "not proved.",
    Claim.CALIBRATED: "Holds with the stated probability for exchangeable samples and this attack.",
    Claim.CERTIFIED: "Proved for every perturbation in the ball, rounding included.",
    Claim.ATTAINED: "Lower bound: a perturbation in the ball that moves the attribution this far.",
}


class Status(enum.Flag):
    """Reservations about one example's result; ``CONVERGED`` when there are none."""

    CONVERGED = 0
    ITERATION_LIMIT = enum.auto()
    ANGLE_UNBOUNDED = enum.auto()
    ZERO_ATTRIBUTION = enum.auto()
    KINKED = enum.auto()
    MISCLASSIFIED = enum.auto()

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
}


@dataclass(frozen=True, eq=False)
class Bracket:
    """A value per example, from below (``lower``) and from above (``upper``).

    ``upper`` fails, independently of how far the iteration got, with at most
    ``failure_probability`` over the random start of the solver.
    """

    lower: Tensor
    upper: Tensor
    failure_probability: float

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.lower, self.upper), strict=True))
        title = f"Bracket (upper fails with probability <= {self.failure_probability:g})"
        return render(title, ["lower", "upper"], rows)


@dataclass(frozen=True, eq=False)
class SpectralEstimate:
    """The largest singular value of each example's operator, bracketed, and its vectors.

    Attributes:
        value: Ritz value below, probabilistic upper estimate above.
        left, right: unit vectors with ``J right ~ lower * left``, shape ``(batch, *features)``.
        residual: Euclidean norm of ``J^T left - lower * right``.
        products: operator products spent on each example.
        status: converged, or why not.
    """

    value: Bracket
    left: Tensor
    right: Tensor
    residual: Tensor
    products: Tensor
    status: tuple[Status, ...]

    def __repr__(self) -> str:
        numbers = columns(self.value.lower, self.value.upper, self.residual, self.products)
        rows = list(zip(*numbers, self.status, strict=True))
        header = ["ritz", "upper", "residual", "products", "status"]
        p = self.value.failure_probability
        return render(f"SpectralEstimate (upper fails with probability <= {p:g})", header, rows)


@dataclass(frozen=True, eq=False)
class LabelConstraint:
    """The half-space ``normal . delta < margin`` in which, to first order, the label stays.

    Attributes:
        runner_up: the second best label y'.
        normal: M, the gradient of the runner-up's logit minus that of the target's.
        margin: b, the target's logit minus the runner-up's; negative if misclassified.
        plus_feasible, minus_feasible: whether the worst perturbation and its negative
            lie in the half-space.
        misclassified: the target is not the predicted label.
    """

    runner_up: Tensor
    normal: Tensor
    margin: Tensor
    plus_feasible: Tensor
    minus_feasible: Tensor
    misclassified: Tensor

    @property
    def attained(self) -> Tensor:
        """Whether the constraint leaves the linearised optimum where it was."""
        return self.plus_feasible | self.minus_feasible

    def __repr__(self) -> str:
        rows = zip(
            *columns(self.runner_up, self.margin, self.plus_feasible, self.minus_feasible),
            *columns(self.misclassified),
            strict=True,
        )
        header = ["runner-up", "margin", "+ feasible", "- feasible", "misclassified"]
        return render("LabelConstraint", header, list(rows))


@dataclass(frozen=True, eq=False)
class Bound:
    """How far the attribution of each example can move in a ball, per the paper.

    Attributes:
        euclidean: T_e, the largest Euclidean deviation (claim: ``claim``).
        adjusted: T'_e, ``euclidean`` raised to the deviations seen at plus and minus
            ``epsilon * direction`` (claim: adjusted).
        cosine, degrees: the cosine distance and angle that ``euclidean`` implies.
        adjusted_cosine, adjusted_degrees: the same from ``adjusted``.
        xi: largest singular value of the Jacobian, from below and from above.
        direction: the linearised worst perturbation found, of norm one in the ball's
            norm: exact for p = 1 and 2, from the top singular vector otherwise.
        source: the result of the paper that gave the smallest value, per example.
        attribution_norm: Euclidean norm of the unperturbed attribution.
        label: the label constraint, if the attribution knows its classifier.
        products: operator products spent on each example.
    """

    epsilon: float
    p: float
    target: Tensor
    claim: Claim
    euclidean: Tensor
    adjusted: Tensor
    cosine: Tensor
    degrees: Tensor
    adjusted_cosine: Tensor
    adjusted_degrees: Tensor
    xi: Bracket
    direction: Tensor
    source: tuple[str, ...]
    attribution_norm: Tensor
    label: LabelConstraint | None
    products: Tensor
    status: tuple[Status, ...]

    @property
    def relative(self) -> Tensor:
        """T_e divided by the norm of the attribution: free of the scale of the logits."""
        return ratio(self.euclidean, self.attribution_norm)

    @property
    def c(self) -> Tensor:
        """The paper's factor c = T'_e / T_e >= 1; one where both are zero."""
        both_zero = (self.adjusted == 0) & (self.euclidean == 0)
        return torch.where(
            both_zero, torch.ones_like(self.adjusted), self.adjusted / self.euclidean
        )

    @property
    def claims(self) -> dict[str, Claim]:
        """The claim of every number."""
        adjusted = ["adjusted", "adjusted_cosine", "adjusted_degrees", "c"]
        own = ["euclidean", "cosine", "degrees", "relative"]
        return {**dict.fromkeys(own, self.claim), **dict.fromkeys(adjusted, Claim.ADJUSTED)}

    def __len__(self) -> int:
        return len(self.status)

    def __repr__(self) -> str:
        numbers = columns(
            self.target,
            self.attribution_norm,
            self.xi.lower,
            self.xi.upper,
            self.euclidean,
            self.adjusted,
            self.cosine,
            self.degrees,
        )
        rows = list(zip(*numbers, self.source, self.status, strict=True))
        title = (
            f"Bound on the attribution deviation, l{cell(self.p)} ball of radius "
            f"{cell(self.epsilon)}, claim: {self.claim} (T'_e: {Claim.ADJUSTED})"
        )
        header = ["target", "|g|", "xi >=", "xi <=", "T_e", "T'_e", "cosine", "degrees"]
        return render(title, [*header, "by", "status"], rows)


@dataclass(frozen=True, eq=False)
class MaxEpsilon:
    """The largest radius at which the bound stays within a threshold, per example."""

    epsilon: Tensor
    p: float
    threshold: str
    target: Tensor
    claim: Claim
    source: tuple[str, ...]
    status: tuple[Status, ...]

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.target, self.epsilon), self.source, self.status, strict=True))
        title = f"Largest l{cell(self.p)} radius with {self.threshold}, claim: {self.claim}"
        return render(title, ["target", "epsilon", "by", "status"], rows)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What first order leaves out at one perturbation, per example.

    ``eta`` is the norm of g(x + delta) - g(x) - J delta, to be read beside
    ``deviation``, the norm of g(x + delta) - g(x).
    """

    eta: Tensor
    deviation: Tensor

    @property
    def relative(self) -> Tensor:
        """``eta / deviation``: zero for a linear attribution."""
        return ratio(self.eta, self.deviation)

    def __repr__(self) -> str:
        rows = list(zip(*columns(self.eta, self.deviation, self.relative), strict=True))
        return render("Remainder of the linearisation", ["eta", "deviation", "relative"], rows)


@dataclass(frozen=True, eq=False)
class Attacked:
    """The perturbations an attack found, and how far they move the attribution.

    Attributes:
        delta: perturbation of each example, inside the ball, shape ``(batch, *features)``.
        deviation: Euclidean distance of the two attributions.
        cosine, degrees: their cosine distance and angle; 2 and 180 where undefined.
        label_kept: the prediction at ``x + delta`` is that at ``x``; None without a classifier.
        misclassified: the prediction at ``x`` is not the target, so that the label the
            attack explains was never there; None without a classifier.
        evaluations: gradients of the model computed for each example.
        trials: the single attacks, if several were made; the fields above are then those
            of the trial that moved an example furthest.
    """

    delta: Tensor
    deviation: Tensor
    cosine: Tensor
    degrees: Tensor
    label_kept: Tensor | None
    misclassified: Tensor | None
    evaluations: int
    trials: tuple[Attacked, ...] = ()
    claim: Claim = Claim.ATTAINED

    def __len__(self) -> int:
        return len(self.deviation)

    def __repr__(self) -> str:
        kept, wrong = (
            ["?"] * len(self) if flags is None else flags.tolist()
            for flags in (self.label_kept, self.misclassified)
        )
        numbers = columns(self.deviation, self.cosine, self.degrees)
        rows = list(zip(*numbers, kept, wrong, strict=True))
        trials = f"best of {len(self.trials)} trials, " if self.trials else ""
        title = f"Attacked, {trials}{self.evaluations} gradients each, claim: {self.claim}"
        header = ["deviation", "cosine", "degrees", "label kept", "misclassified"]
        return render(title, header, rows)


@dataclass(frozen=True, eq=False)
class Fidelity:
    """How a smoothed model differs from the original on some inputs, per example.

    Attributes:
        labels_agree: both predict the same class.
        logits: largest absolute difference of the logits.
        attribution: Euclidean distance of the attributions, relative to the original's norm.
        degrees: angle between the attributions.
    """

    labels_agree: Tensor
    logits: Tensor
    attribution: Tensor
    degrees: Tensor

    @property
    def agreement(self) -> float:
        """Share of examples with the same predicted class."""
        return self.labels_agree.double().mean().item()

    def __repr__(self) -> str:
        rows = [
            [name, value.double().mean().item(), value.double().max().item()]
            for name, value in [
                ("largest logit difference", self.logits),
                ("relative attribution difference", self.attribution),
                ("attribution angle (degrees)", self.degrees),
            ]
        ]
        agree, count = int(self.labels_agree.sum()), len(self.labels_agree)
        title = f"Fidelity of the smoothed model: same label for {agree} of {count}"
        return render(title, ["", "mean", "max"], rows)


def columns(*tensors: Tensor) -> list[Sequence[object]]:
    """Tensors of one value per example as lists of Python numbers."""
    return [tensor.detach().cpu().tolist() for tensor in tensors]
