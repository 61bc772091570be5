"""What a calibration belongs to: model, attribution, ball, base bound, attack and subject."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

from torch import Tensor

from attribound.attributions import Attribution, Classifier
from attribound.balls import Ball
from attribound.basics.errors import InputError, ModelError
from attribound.bounding.method import Method
from attribound.networks.fingerprint import fingerprint
from attribound.networks.subject import copy_of
from attribound.values import fingerprints, to_spec

#: About which network a calibration is, if a smooth copy stands for one.
Subject = Literal["yours", "copy"]


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
        subject: whose deviations the bound was calibrated against: ``yours`` for the user's own
            network, ``copy`` for a smooth copy of it.
        original: fingerprint of the user's own network, if it was attacked and its smooth copy
            bounded; else None.
        samples: hashes of the calibration samples, in the order of the alphabet; none if they
            are not known.
    """

    model: str
    attribution: Any
    ball: Ball
    target: str
    base: Method
    attack: Any
    code: dict[str, str]
    version: str
    subject: str = "yours"
    original: str | None = None
    samples: tuple[str, ...] = ()


def sample_hashes(x: Tensor) -> list[str]:
    """One for each example: equal for equal numbers in float32, whatever they are stored as."""
    rows = x.detach().cpu().float().contiguous() + 0.0  # no zero is below zero
    return [hashlib.sha256(row.numpy().tobytes()).hexdigest()[:32] for row in rows]


def first_of_each(hashes: Sequence[str]) -> list[int]:
    """Where each hash occurs first: a sample that is there twice counts once."""
    return sorted({each: row for row, each in reversed([*enumerate(hashes)])}.values())


def identify(attribution: Attribution) -> str:
    """Fingerprint of the model behind an attribution; ``none`` if it knows no model."""
    classifier = attribution.classifier
    return "none" if classifier is None else fingerprint("model", classifier.model)


def check_subject(subject: str) -> None:
    """Refuse what is no :data:`Subject`."""
    if subject not in get_args(Subject):
        raise InputError(
            "subject",
            expected=f"one of {', '.join(get_args(Subject))}",
            got=repr(subject),
            remedy="yours is your own network, copy the smooth copy that is bounded",
        )


def about(attribution: Attribution, subject: Subject) -> Attribution:
    """What is attacked where ``attribution`` is bounded: of the network that a copy stands for.

    ``attribution`` itself if that is of no copy, or if it is the copy that is asked about.

    Raises:
        InputError: it cannot be taken of another network.
    """
    classifier = attribution.classifier
    copied = None if classifier is None else copy_of(classifier.model)
    if subject == "copy" or classifier is None or copied is None:
        return attribution
    if not attribution.follows_model:
        raise InputError(
            f"attribution {attribution.name}",
            expected="one that can be taken of your network, too",
            got=f"one of {attribution.subject} alone",
            remedy="use an attribution with a model, or calibrate about the copy: subject='copy'",
        )
    limit, structured = classifier.memory_limit, classifier.structured
    own = Classifier(copied.original, memory_limit=limit, structured=structured)
    return attribution.of(own)


def identify_original(attribution: Attribution) -> str:
    """Fingerprint of the network that a smooth copy stands for; ``none`` if it is no copy."""
    classifier = attribution.classifier
    copied = None if classifier is None else copy_of(classifier.model)
    return "none" if copied is None else fingerprint("model", copied.original)


def recorded(attribution: Attribution, attacked: Attribution) -> tuple[str, str | None]:
    """``subject`` and ``original`` of a provenance: ``attribution`` bounded, ``attacked`` so."""
    if attacked is not attribution:
        return "yours", identify(attacked)
    classifier = attribution.classifier
    is_copy = classifier is not None and copy_of(classifier.model) is not None
    return ("copy" if is_copy else "yours"), None


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
