"""Cards: what is known of a trained model, as one typed record."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

from attribound.basics.errors import InputError
from attribound.metrics import Mean, Share, Similarity
from attribound.zoo.naming import check_name
from attribound.zoo.protocol import CardProtocol


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The file of the weights: its SHA-256 and its size in bytes."""

    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        check_sha256(self.sha256)


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """The weights that training began with.

    Attributes:
        name: of the model in the zoo; None for weights of other origin.
        sha256: of their file.
    """

    name: str | None
    sha256: str

    def __post_init__(self) -> None:
        check_sha256(self.sha256)
        if self.name is not None:
            check_name(self.name)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured on test images, and how.

    Attributes:
        protocol: images, balls and attacks.
        clean: images classified correctly.
        first: of the first 1,000 of these, or all if there are fewer: quick to check again.
        attacked: images classified correctly under PGD.
        similarity: of the attributions before and after IFIA; None if not one of the
            images is classified correctly.
    """

    protocol: CardProtocol
    clean: Share
    first: Share
    attacked: Share
    similarity: Similarity | None

    @property
    def numbers(self) -> dict[str, Share | Mean]:
        """Every number by its name."""
        own: dict[str, Share | Mean] = {"clean": self.clean, "attacked": self.attacked}
        alike = self.similarity
        if alike is not None:
            own |= {
                "top_k": alike.top_k,
                "kendall": alike.kendall,
                "pearson": alike.pearson,
                "cosine": alike.cosine,
            }
        return own


@dataclass(frozen=True, kw_only=True)
class Licence:
    """Of the weights, and what is known of that of the data they were trained on."""

    weights: str
    data: str


@dataclass(frozen=True, kw_only=True)
class Card:
    """Everything about one model except its weights; one JSON file beside them.

    Attributes:
        name: ``<data>/<method>[-<network>]``.
        data: name of the data set.
        method: training method.
        network: config of the network, as ``attribound.models`` writes it.
        training: every setting of the training, as the trainer wrote it.
        seed, epochs: of the training.
        warm_start: what it began with; None for new weights.
        cpu_seconds: of the training, all threads and restarts together, without its warm start's.
        weights: the file.
        measured: on test images.
        date: of the measurement.
        versions: of the packages that trained it.
        licence: of weights and data.
        commit: of the code that trained it, if known.
    """

    name: str
    data: str
    method: str
    network: dict[str, Any]
    training: dict[str, Any]
    seed: int
    epochs: int
    warm_start: WarmStart | None
    cpu_seconds: float
    weights: Weights
    measured: Measurement
    date: datetime.date
    versions: dict[str, str]
    licence: Licence
    commit: str | None

    # Read by pydantic, for this class and those in it.
    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012

    def __post_init__(self) -> None:
        check_name(self.name)


def check_sha256(digest: str) -> None:
    """Refuse what is no SHA-256 in hexadecimal."""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(
            "sha256",
            expected="64 hexadecimal digits in lower case",
            got=repr(digest),
            remedy="compute it with sha256sum",
        )
