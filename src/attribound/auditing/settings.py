"""Everything the rows of an audit depend on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from pydantic import TypeAdapter

from attribound.auditing import strict
from attribound.auditing.attack_settings import (
    AnyAttack,
    AscentSettings,
    AttackSettings,
    IFIASettings,
    PGDSettings,
    RandomSettings,
)
from attribound.auditing.attribution_settings import (
    AnyAttribution,
    AttributionSettings,
    IGSettings,
    InputXGradientSettings,
    SaliencySettings,
    SmoothGradSettings,
    parse_attribution,
)
from attribound.auditing.bound_settings import (
    CertifiedSettings,
    FirstOrderSettings,
    MeanValueSettings,
)
from attribound.auditing.strict import Strict, check
from attribound.balls import LpBall
from attribound.basics.errors import InputError

__all__ = [
    "CLAIMS",
    "PROTOCOLS",
    "AnyAttack",
    "AnyAttribution",
    "AscentSettings",
    "AttackSettings",
    "AttributionSettings",
    "AuditSettings",
    "BallSettings",
    "CertifiedSettings",
    "FirstOrderSettings",
    "IFIASettings",
    "IGSettings",
    "InputXGradientSettings",
    "MeanValueSettings",
    "PGDSettings",
    "RandomSettings",
    "SaliencySettings",
    "SmoothGradSettings",
    "dump_settings",
    "parse_attribution",
    "parse_settings",
]

Protocol = Literal["quick", "paper", "strong"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
#: In the order of tables.
CLAIMS = ("first_order", "mean_value", "calibrated", "certified")
_ATTACK_NAME = re.compile(r"[a-z][a-z0-9]*")
_TAKEN = ("by", "degrees", "mean", "label")  # would be read as another column


@dataclass(frozen=True)
class BallSettings(Strict):
    """The balls of one norm.

    Attributes:
        norm: ``l2``, ``linf``, ``l1`` or any other ``lP``.
        epsilons: their radii.
        low, high: range of the features, e.g. 0 and 1 for pixels; None for no limit, or for
            the one that ``AuditSettings.value_range`` says.
    """

    norm: str = "l2"
    epsilons: tuple[float, ...] = (0.1,)
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no ball."""
        try:
            object.__setattr__(self, "norm", f"l{float(self.norm.removeprefix('l')):g}")
        except ValueError as error:
            raise InputError(
                "norm",
                expected="l2, linf, l1 or lP with a number P",
                got=repr(self.norm),
                remedy="write e.g. l2",
            ) from error
        epsilons = tuple(float(epsilon) for epsilon in self.epsilons)
        check("epsilons", epsilons, bool(epsilons), "at least one radius", "write e.g. [0.05, 0.1]")
        object.__setattr__(self, "epsilons", epsilons)
        self.balls  # noqa: B018 - refuses a radius, an order or a range that makes no ball

    @property
    def p(self) -> float:
        """The order of the norm."""
        return float(self.norm.removeprefix("l"))

    @property
    def unlimited(self) -> bool:
        """Whether features may have any value."""
        return self.low is None and self.high is None

    @property
    def balls(self) -> tuple[LpBall, ...]:
        """One for each radius."""
        return tuple(LpBall(epsilon, self.p, self.low, self.high) for epsilon in self.epsilons)


@dataclass(frozen=True)
class AuditSettings(Strict):
    """An audit: model, data, what is bounded, what attacks it, and how much of each.

    What is None is filled in by :func:`attribound.auditing.protocols.complete` from the
    protocol; rows and schema belong to the complete settings.

    Attributes:
        model: where it comes from, e.g. ``zoo:fashion-mnist/at`` or ``module:factory``.
        data: name or path.
        weights: file for the model.
        split: ``train`` or ``test``.
        limit: at most so many examples, chosen at random.
        skip: leave out as many as an audit with that limit takes, e.g. to calibrate on others.
        seed: of the choice of examples and of the attacks.
        smooth: beta of the smooth copy that stands for a network with kinks (ReLU).
        attributions: what is explained; names are unique.
        balls: where.
        claims: of first_order, mean_value, calibrated and certified.
        attacks: by name (letters and digits); ``{}`` for none.
        first_order, mean_value, certified: effort of the bounds.
        k: for top-k; None: 100, or 1000 above 1024 features, but at most a third of them.
        calibration: a file that ``Calibration.save`` wrote, or a folder of them.
        batch: examples computed together and stored as one part.
        maps: of which examples inputs and maps are kept for a gallery.
        dtype, device: of the computation.
        protocol: where everything left out comes from.
        value_range: of cubes (linf) without low and high: ``data`` for 0 to 1 if the data are
            images, ``none`` for no limit. Only there do bounds use a range: in other balls they
            speak of the whole ball, and so do the attacks unless low and high are given.
    """

    model: str
    data: str
    weights: str | None = None
    split: Literal["train", "test"] | None = None
    limit: int | None = None
    skip: int = 0
    seed: int = 0
    smooth: float | None = None
    attributions: tuple[AttributionSettings, ...] = (IGSettings(),)
    balls: tuple[BallSettings, ...] = (BallSettings(),)
    claims: tuple[str, ...] | None = None
    attacks: dict[str, AttackSettings] | None = None
    first_order: FirstOrderSettings | None = None
    mean_value: MeanValueSettings | None = None
    certified: CertifiedSettings | None = None
    k: int | None = None
    calibration: str | None = None
    batch: int = 16
    maps: Literal["all", "some", "none"] = "some"
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    protocol: Protocol = "quick"
    value_range: Literal["data", "none"] | None = None

    def __post_init__(self) -> None:
        """Refuse settings that contradict themselves."""
        check("limit", self.limit, self.limit is None or self.limit >= 1, "1 or more", "or none")
        check("skip", self.skip, self.skip >= 0, "0 or more", "use the limit of another audit")
        check("batch", self.batch, self.batch >= 1, "1 or more", "use e.g. 16")
        check("k", self.k, self.k is None or self.k >= 1, "1 or more", "leave it out for a default")
        check("seed", self.seed, self.seed >= 0, "0 or more", "use e.g. 0")
        beta = self.smooth
        fine = beta is None or 0 < beta < math.inf
        check("smooth", beta, fine, "a finite number above 0", "use e.g. 20")
        listed: dict[str, list[object]] = {
            "attributions": [each.name for each in self.attributions],
            "balls": [(each.norm, epsilon) for each in self.balls for epsilon in each.epsilons],
            "claims": list(("none",) if self.claims is None else self.claims),
        }
        for name, values in listed.items():
            check(name, values, bool(values), "at least one", "leave it out for the default")
            twice = [each for each, count in Counter(values).items() if count > 1]
            check(name, twice, not twice, "each only once", "give them different labels or radii")
        unknown = [claim for claim in self.claims or () if claim not in CLAIMS]
        check("claims", unknown, not unknown, f"of {', '.join(CLAIMS)}", "check the spelling")
        for name in self.attacks or {}:
            fine = bool(_ATTACK_NAME.fullmatch(name)) and name not in _TAKEN
            expected = f"lower-case letters and digits, none of {', '.join(_TAKEN)}"
            check("name of an attack", name, fine, expected, "it becomes part of a column's name")

    @property
    def torch_dtype(self) -> torch.dtype:
        """``dtype`` as torch has it."""
        return torch.float64 if self.dtype == "float64" else torch.float32


def parse_settings(document: Mapping[str, Any]) -> AuditSettings:
    """Settings from a TOML or JSON document; attributions may be texts as on a command line.

    Raises:
        InputError: names every key that is unknown, missing or has a wrong value.
    """
    mended = dict(document)
    if isinstance(listed := mended.get("attributions"), (list, tuple)):
        mended["attributions"] = tuple(
            parse_attribution(each) if isinstance(each, str) else each for each in listed
        )
    return strict.parse(AuditSettings, mended, "settings of the audit")


def dump_settings(settings: AuditSettings) -> dict[str, Any]:
    """The same as plain values for JSON; :func:`parse_settings` gives them back."""
    plain: dict[str, Any] = TypeAdapter(AuditSettings).dump_python(settings, mode="json")
    return plain
