"""How far can an attacker move the explanations of a classifier?"""

import importlib
from typing import TYPE_CHECKING, Any

from attribound.basics import rooms

if TYPE_CHECKING:
    from attribound import attacks, data, metrics, models, zoo
    from attribound.attributions import (
        Absolute,
        Attribution,
        AutogradAttribution,
        ChosenBeta,
        Classifier,
        ExpectedGradients,
        FunctionAttribution,
        GradCAM,
        Grouped,
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
    from attribound.auditing import LocalEngine, RayEngine, Run
    from attribound.auditing.audit import audit
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
    from attribound.bounding.first_order import Adjusted, FirstOrder, eta
    from attribound.bounding.guarantees import bound, bounds
    from attribound.bounding.mean_value import MeanValue
    from attribound.bounding.method import Method, Question
    from attribound.bounding.reasons import Reasons, Switches, max_epsilon, reasons, switches
    from attribound.bounding.restate import restate
    from attribound.bounding.smoothed import Smoothed
    from attribound.bounding.validation import Validation, validate
    from attribound.networks import smooth
    from attribound.operators import LinearOperator
    from attribound.report import compare, write_html
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

__version__ = "0.2.0"

#: Rooms are imported when a name of theirs is first used: the command line answers most
#: questions without torch, bounds do without pyarrow. Type checkers see the imports above.
_HOMES = {
    "attributions": "Absolute Attribution AutogradAttribution ChosenBeta Classifier "
    "ExpectedGradients FunctionAttribution GradCAM Grouped InputXGradient IntegratedGradients "
    "Linearization ModelAttribution Saliency SmoothGrad choose_beta fidelity from_captum",
    "auditing": "LocalEngine RayEngine Run",
    "auditing.audit": "audit",
    "balls": "Ball Enclosure L2Ball LinfBall LpBall",
    "basics.errors": "AttriboundError InputError KinkError MemoryLimitError ModelError ProbeError",
    "bounding.calibrated": "Calibrated Calibration SplitConformal calibrate",
    "bounding.certified": "Certified",
    "bounding.first_order": "Adjusted FirstOrder eta",
    "bounding.guarantees": "bound bounds",
    "bounding.mean_value": "MeanValue",
    "bounding.method": "Method Question",
    "bounding.reasons": "Reasons Switches max_epsilon reasons switches",
    "bounding.restate": "restate",
    "bounding.smoothed": "Smoothed",
    "bounding.validation": "Validation validate",
    "networks": "smooth",
    "operators": "LinearOperator",
    "report": "compare write_html",
    "results": "Attacked Bound Bounds Claim Fidelity MaxEpsilon Moves Status claims register_claim",
    "spectral": "NormSolver SpectralSolver",
    "values": "from_spec register to_spec to_text",
}
_ROOMS = ("attacks", "data", "metrics", "models", "zoo")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

#: Where values and claims are registered.
_WITH_VALUES = (
    "balls attributions spectral attacks bounding.first_order bounding.mean_value "
    "bounding.certified bounding.smoothed "
    "bounding.calibrated auditing training"
)
rooms.announce(*(f"{__name__}.{each}" for each in _WITH_VALUES.split()))

__all__ = [
    "Absolute",
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
    "ExpectedGradients",
    "Fidelity",
    "FirstOrder",
    "FunctionAttribution",
    "GradCAM",
    "Grouped",
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
    "Reasons",
    "Run",
    "Saliency",
    "SmoothGrad",
    "Smoothed",
    "SpectralSolver",
    "SplitConformal",
    "Status",
    "Switches",
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
    "reasons",
    "register",
    "register_claim",
    "restate",
    "smooth",
    "switches",
    "to_spec",
    "to_text",
    "validate",
    "write_html",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
