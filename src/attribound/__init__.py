"""How far can an attacker move the explanations of a classifier?"""

from attribound import attacks, data, metrics, models, zoo
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
from attribound.bounding import FirstOrder, eta, max_epsilon
from attribound.calibration import Calibration, SplitConformal, calibrate
from attribound.certification import Certified
from attribound.errors import (
    AttriboundError,
    InputError,
    KinkError,
    MemoryLimitError,
    ModelError,
    ProbeError,
)
from attribound.guarantees import bound, bounds
from attribound.mean_value import MeanValue
from attribound.results import Attacked, Bound, Bounds, Claim, Fidelity, MaxEpsilon, Status
from attribound.smoothing import smooth
from attribound.spectral import NormSolver, SpectralSolver
from attribound.validation import Validation, validate

__version__ = "0.1.0"

__all__ = [
    "Attacked",
    "AttriboundError",
    "Attribution",
    "Bound",
    "Bounds",
    "Calibration",
    "Certified",
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
    "MeanValue",
    "MemoryLimitError",
    "ModelError",
    "NormSolver",
    "ProbeError",
    "Saliency",
    "SmoothGrad",
    "SpectralSolver",
    "SplitConformal",
    "Status",
    "Validation",
    "attacks",
    "bound",
    "bounds",
    "calibrate",
    "data",
    "eta",
    "fidelity",
    "from_captum",
    "max_epsilon",
    "metrics",
    "models",
    "smooth",
    "validate",
    "zoo",
]
