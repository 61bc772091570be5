"""How far can an attacker move the explanations of a classifier?"""

import importlib
from typing import TYPE_CHECKING, Any

from attribound import attacks, data, metrics, models, zoo
from attribound.attributions import (
    Attribution,
    AutogradAttribution,
    ChosenBeta,
    Classifier,
    FunctionAttribution,
    InputXGradient,
    IntegratedGradients,
    Linearization,
    ModelAttribution,
    Saliency,
    SmoothGrad,
    choose_beta,
    fidelity,
    from_captum,
)
from attribound.balls import Ball, Enclosure, L2Ball, LinfBall, LpBall
from attribound.basics.errors import (
    AttriboundError,
    InputError,
    KinkError,
    MemoryLimitError,
    ModelError,
    ProbeError,
)
from attribound.bounding.calibrated import Calibrated, Calibration, SplitConformal, calibrate
from attribound.bounding.certified import Certified
from attribound.bounding.first_order import Adjusted, FirstOrder, eta, max_epsilon
from attribound.bounding.guarantees import bound, bounds
from attribound.bounding.mean_value import MeanValue
from attribound.bounding.method import Method, Question
from attribound.bounding.restate import restate
from attribound.bounding.smoothed import Smoothed
from attribound.bounding.validation import Validation, validate
from attribound.networks import smooth
from attribound.operators import LinearOperator
from attribound.results import (
    Attacked,
    Bound,
    Bounds,
    Claim,
    Fidelity,
    MaxEpsilon,
    Moves,
    Status,
    claims,
    register_claim,
)
from attribound.spectral import NormSolver, SpectralSolver
from attribound.values import from_spec, register, to_spec, to_text

if TYPE_CHECKING:
    from attribound.auditing import LocalEngine, RayEngine, Run
    from attribound.auditing.audit import audit
    from attribound.report import compare, write_html

__version__ = "0.1.0"

#: Loaded when first asked for: audits bring pyarrow with them, which bounds do without.
_LATER = {
    "audit": "attribound.auditing",
    "Run": "attribound.auditing",
    "LocalEngine": "attribound.auditing",
    "RayEngine": "attribound.auditing",
    "write_html": "attribound.report",
    "compare": "attribound.report",
}

__all__ = [
    "Adjusted",
    "Attacked",
    "AttriboundError",
    "Attribution",
    "AutogradAttribution",
    "Ball",
    "Bound",
    "Bounds",
    "Calibrated",
    "Calibration",
    "Certified",
    "ChosenBeta",
    "Claim",
    "Classifier",
    "Enclosure",
    "Fidelity",
    "FirstOrder",
    "FunctionAttribution",
    "InputError",
    "InputXGradient",
    "IntegratedGradients",
    "KinkError",
    "L2Ball",
    "LinearOperator",
    "Linearization",
    "LinfBall",
    "LocalEngine",
    "LpBall",
    "MaxEpsilon",
    "MeanValue",
    "MemoryLimitError",
    "Method",
    "ModelAttribution",
    "ModelError",
    "Moves",
    "NormSolver",
    "ProbeError",
    "Question",
    "RayEngine",
    "Run",
    "Saliency",
    "SmoothGrad",
    "Smoothed",
    "SpectralSolver",
    "SplitConformal",
    "Status",
    "Validation",
    "attacks",
    "audit",
    "bound",
    "bounds",
    "calibrate",
    "choose_beta",
    "claims",
    "compare",
    "data",
    "eta",
    "fidelity",
    "from_captum",
    "from_spec",
    "max_epsilon",
    "metrics",
    "models",
    "register",
    "register_claim",
    "restate",
    "smooth",
    "to_spec",
    "to_text",
    "validate",
    "write_html",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'attribound' has no attribute {name!r}")
