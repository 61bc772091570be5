"""What a number promises, and what is to be said against it."""

from __future__ import annotations

import enum

from attribound.basics.errors import InputError


class Claim(str, enum.Enum):
    """What a number promises."""

    FIRST_ORDER = "first-order"
    ADJUSTED = "adjusted"
    MEAN_VALUE = "mean-value (searched)"
    CALIBRATED = "calibrated"
    CERTIFIED = "certified"
    ATTAINED = "attained"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def named(cls, name: str | Claim) -> Claim:
        """The claim that users write as ``"first_order"``, ``"mean_value"`` and so on."""
        key = str(name.name if isinstance(name, Claim) else name).upper().replace("-", "_")
        if key not in cls.__members__:
            raise InputError(
                "claim",
                expected=f"one of {', '.join(member.lower() for member in cls.__members__)}",
                got=repr(name),
                remedy="'first_order' is the default",
            )
        return cls[key]

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
    VACUOUS = enum.auto()

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
}
