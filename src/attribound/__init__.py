"""How far can an attacker move the explanations of a classifier?"""

from attribound import attacks, metrics
from attribound.attributions import (
    Attribution,
    Classifier,
    FunctionAttribution,
    InputXGradient,
    IntegratedGradients,
    Linearization,
    Saliency,
    SmoothGrad,
    fidelity,
    from_captum,
)
from attribound.balls import L2Ball, LinfBall, LpBall
from attribound.bounding import FirstOrder, bound, eta, max_epsilon
from attribound.errors import (
    AttriboundError,
    InputError,
    KinkError,
    MemoryLimitError,
    ModelError,
    ProbeError,
)
from attribound.results import Attacked, Bound, Claim, Fidelity, MaxEpsilon, Status
from attribound.smoothing import smooth
from attribound.spectral import SpectralSolver
from attribound.validation import Validation, validate

__version__ = "0.1.0"

__all__ = [
    "Attacked",
    "AttriboundError",
    "Attribution",
    "Bound",
    "Claim",
    "Classifier",
    "Fidelity",
    "FirstOrder",
    "FunctionAttribution",
    "InputError",
    "InputXGradient",
    "IntegratedGradients",
    "KinkError",
    "L2Ball",
    "Linearization",
    "LinfBall",
    "LpBall",
    "MaxEpsilon",
    "MemoryLimitError",
    "ModelError",
    "ProbeError",
    "Saliency",
    "SmoothGrad",
    "SpectralSolver",
    "Status",
    "Validation",
    "attacks",
    "bound",
    "eta",
    "fidelity",
    "from_captum",
    "max_epsilon",
    "metrics",
    "smooth",
    "validate",
]
