"""What a calibration belongs to: model, attribution, ball, base bound and attack."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError, ModelError
from attribound.bounding.method import Method
from attribound.networks.fingerprint import fingerprint
from attribound.values import fingerprints, to_spec


@dataclass(frozen=True)
class Provenance:
    """What a calibration was made with; it says nothing about anything else.

    Attributes:
        model: fingerprint of the model.
        attribution: its settings, as plain data.
        ball: the perturbations, radius and range included.
        target: ``predicted`` class, or labels as ``given``.
        base: how the base bound is computed.
        attack: what the bound was calibrated against, as plain data.
        code: fingerprints of what is a user's own in attribution, ball, base and attack.
        version: of attribound.
    """

    model: str
    attribution: Any
    ball: Ball
    target: str
    base: Method
    attack: Any
    code: dict[str, str]
    version: str


def identify(attribution: Attribution) -> str:
    """Fingerprint of the model behind an attribution; ``none`` if it knows no model."""
    classifier = attribution.classifier
    return "none" if classifier is None else fingerprint("model", classifier.model)


def described(attribution: Attribution) -> Any:
    """The settings of an attribution as plain data.

    Raises:
        ModelError: it is of a class or function without a name to find it by.
    """
    plain = to_spec(attribution, whole=True)
    plain.pop("label", None)  # what it is called does not change what it is
    kind = plain["kind"]
    unnamed = [text for text in (kind, plain.get("fn", "")) if "<" in str(text)]
    if unnamed:
        raise ModelError(
            f"attribution {attribution.name}",
            expected="a class or function of a module, or one with a text as its attribute "
            "fingerprint",
            got=f"{unnamed[0]}, which could be any",
            remedy="define it at the top of a module, or set its fingerprint to a name that you "
            "change whenever you change it",
        )
    return plain


def code_of(*values: object) -> dict[str, str]:
    """Fingerprints of the code of what is not built in."""
    return fingerprints(*values)


def refuse_settings_per_example(attribution: Attribution, x: Tensor) -> None:
    """Refuse what differs from example to example: new samples would have nothing to go by."""
    if attribution.rows(x, slice(0, 1)) is not attribution:
        raise InputError(
            f"attribution {attribution.name}",
            expected="the same settings for all samples, new ones included",
            got="a setting per example, such as a baseline of the shape of x",
            remedy="calibrate with one baseline for all examples",
        )


def installed_version() -> str:
    """The version of attribound; it may also run from a folder that was never installed."""
    try:
        return version("attribound")
    except PackageNotFoundError:
        return "not installed"
