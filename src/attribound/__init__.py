"""How far can an attacker move the explanations of a classifier?"""

import importlib
from typing import TYPE_CHECKING, Any

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
from attribound.basics.errors import (
    AttriboundError,
    InputError,
    KinkError,
    MemoryLimitError,
    ModelError,
    ProbeError,
)
from attribound.bounding.calibrated import Calibration, SplitConformal, calibrate
from attribound.bounding.certified import Certified
from attribound.bounding.first_order import FirstOrder, eta, max_epsilon
from attribound.bounding.guarantees import bound, bounds
from attribound.bounding.mean_value import MeanValue
from attribound.bounding.validation import Validation, validate
from attribound.networks import smooth
from attribound.results import Attacked, Bound, Bounds, Claim, Fidelity, MaxEpsilon, Status
from attribound.spectral import NormSolver, SpectralSolver

if TYPE_CHECKING:
    from attribound.auditing.audit import audit

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
    "audit",
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


def __getattr__(name: str) -> Any:
    # Audits bring pyarrow and pydantic with them, which bounds do without: seconds of import.
    if name == "audit":
        return importlib.import_module("attribound.auditing.audit").audit
    raise AttributeError(f"module 'attribound' has no attribute {name!r}")
