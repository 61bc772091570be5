"""What a calibration belongs to: model, attribution, ball, base bound and attack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from torch import Tensor

from attribound.attributions import (
    Attribution,
    FunctionAttribution,
    InputXGradient,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
)
from attribound.balls import LpBall
from attribound.basics.errors import InputError, ModelError
from attribound.networks.fingerprint import fingerprint, tensor_digest, without_addresses
from attribound.results import Claim

_SETTINGS: dict[type[Attribution], tuple[str, ...]] = {
    Saliency: (),
    InputXGradient: (),
    IntegratedGradients: ("steps", "baseline", "quadrature", "multiply_by_inputs"),
    SmoothGrad: ("samples", "sigma", "seed"),
}
_PROGRESS = re.compile(r"(?:, )?progress=(?:True|False)")


@dataclass(frozen=True)
class Provenance:
    """What a calibration was made with; it says nothing about anything else.

    Attributes:
        model: fingerprint of the model.
        attribution: its class and settings.
        ball: the perturbations, radius and range included.
        target: ``predicted`` class, or labels as ``given``.
        claim: of the base bound.
        base: how the base bound was computed.
        attack: what the bound was calibrated against.
        version: of attribound.
    """

    model: str
    attribution: str
    ball: LpBall
    target: str
    claim: Claim
    base: str
    attack: str
    version: str


def identify(attribution: Attribution) -> str:
    """Fingerprint of the model behind an attribution; ``none`` if it knows no model."""
    classifier = attribution.classifier
    return "none" if classifier is None else fingerprint("model", classifier.model)


def describe(attribution: Attribution) -> str:
    """An attribution as text: class and settings, tensors as their hash.

    One that is not built in is refused, because its settings cannot be known, unless it
    (or the function of a ``FunctionAttribution``) has a text ``fingerprint``.
    """
    kind = type(attribution)
    if kind in _SETTINGS:
        shown = [f"{name}={_shown(getattr(attribution, name))}" for name in _SETTINGS[kind]]
        return f"{kind.__name__}({', '.join(shown)})"
    name = getattr(attribution, "fingerprint", None)
    if isinstance(name, str):
        return f"{kind.__name__}(named:{name})"
    if isinstance(attribution, FunctionAttribution) and kind is FunctionAttribution:
        own = fingerprint(f"attribution function {attribution.name}", attribution.fn)
        return f"{kind.__name__}({attribution.name}, {own})"
    raise ModelError(
        f"attribution {kind.__name__}",
        expected="a built-in attribution, or one with a text as its attribute fingerprint",
        got="a class whose settings are not known",
        remedy="give it an attribute fingerprint that names all its settings",
    )


def refuse_settings_per_example(attribution: Attribution, x: Tensor) -> None:
    """Refuse what differs from example to example: new samples would have nothing to go by."""
    if attribution.rows(x, slice(0, 1)) is not attribution:
        raise InputError(
            f"attribution {attribution.name}",
            expected="the same settings for all samples, new ones included",
            got="a setting per example, such as a baseline of the shape of x",
            remedy="calibrate with one baseline for all examples",
        )


def stated(method: object) -> str:
    """The settings of an attack or bound as text, without what only shows progress."""
    return _PROGRESS.sub("", without_addresses(repr(method)))


def installed_version() -> str:
    """The version of attribound; it may also run from a folder that was never installed."""
    try:
        return version("attribound")
    except PackageNotFoundError:
        return "not installed"


def _shown(value: object) -> str:
    if isinstance(value, Tensor):
        return _shown(value.item()) if value.dim() == 0 else f"sha256:{tensor_digest(value)}"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))  # baselines 0 and 0.0 are one
    return repr(value)
