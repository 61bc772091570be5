"""What leaves the library: numbers that say what they claim and how they were obtained."""

from attribound.results.attacked import Attacked
from attribound.results.bound import Bound, LabelConstraint
from attribound.results.bounds import Bounds
from attribound.results.claims import (
    ATTAINED,
    Claim,
    Moves,
    Status,
    claim_named,
    claim_of,
    claims,
    register_claim,
)
from attribound.results.fidelity import Fidelity
from attribound.results.gap import Gap
from attribound.results.join import join
from attribound.results.linearisation import MaxEpsilon, Remainder
from attribound.results.norm import NormEstimate
from attribound.results.smoothed import SmoothedBound
from attribound.results.spectral import Bracket, SpectralEstimate
from attribound.results.subject import AVERAGED, YOURS, averaged_title, copy_title

__all__ = [
    "ATTAINED",
    "AVERAGED",
    "YOURS",
    "Attacked",
    "Bound",
    "Bounds",
    "Bracket",
    "Claim",
    "Fidelity",
    "Gap",
    "LabelConstraint",
    "MaxEpsilon",
    "Moves",
    "NormEstimate",
    "Remainder",
    "SmoothedBound",
    "SpectralEstimate",
    "Status",
    "averaged_title",
    "claim_named",
    "claim_of",
    "claims",
    "copy_title",
    "join",
    "register_claim",
]
