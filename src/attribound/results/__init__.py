"""What leaves the library: numbers that say what they claim and how they were obtained."""

from attribound.results.attacked import Attacked
from attribound.results.bound import Bound, LabelConstraint
from attribound.results.bounds import Bounds
from attribound.results.claims import Claim, Status
from attribound.results.fidelity import Fidelity
from attribound.results.join import join
from attribound.results.linearisation import MaxEpsilon, Remainder
from attribound.results.norm import NormEstimate
from attribound.results.spectral import Bracket, SpectralEstimate

__all__ = [
    "Attacked",
    "Bound",
    "Bounds",
    "Bracket",
    "Claim",
    "Fidelity",
    "LabelConstraint",
    "MaxEpsilon",
    "NormEstimate",
    "Remainder",
    "SpectralEstimate",
    "Status",
    "join",
]
