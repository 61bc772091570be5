"""Presets: how much an audit computes where its settings leave it open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from attribound.auditing.settings import (
    CLAIMS,
    AnyAttack,
    AscentSettings,
    AuditSettings,
    CertifiedSettings,
    FirstOrderSettings,
    IFIASettings,
    MeanValueSettings,
    PGDSettings,
)


@dataclass(frozen=True)
class Preset:
    """What a protocol fills in.

    Attributes:
        claims: which bounds.
        attacks: made for the norms of the audit.
        mean_value: effort of its search.
        value_range: whether cubes keep to the values of the data.
    """

    claims: tuple[str, ...]
    attacks: Callable[[tuple[str, ...]], dict[str, AnyAttack]]
    mean_value: MeanValueSettings = field(default_factory=MeanValueSettings)
    value_range: Literal["data", "none"] = "data"


def _quick(norms: tuple[str, ...]) -> dict[str, AnyAttack]:  # noqa: ARG001
    """One short ascent; its random start is none that the mean-value bound begins at."""
    return {"ascent": AscentSettings(steps=8, random_starts=1, seed=317)}


def _paper(norms: tuple[str, ...]) -> dict[str, AnyAttack]:
    """PGD-20 in round balls, 200 steps of IFIA in the cube, 20 times each."""
    round_balls = tuple(norm for norm in norms if norm != "linf")
    attacks: dict[str, AnyAttack] = {}
    if round_balls:
        attacks["pgd"] = PGDSettings(repeats=20, norms=round_balls)
    if "linf" in norms:
        attacks["ifia"] = IFIASettings(repeats=20, norms=("linf",))
    return attacks


def _strong(norms: tuple[str, ...]) -> dict[str, AnyAttack]:  # noqa: ARG001
    """Ascents of two kinds with random starts, one on the angle, and both of the paper."""
    return {
        "ascent": AscentSettings(steps=16, random_starts=3, seed=317),
        "projected": AscentSettings(step="ascend", steps=16, random_starts=1, seed=429),
        "angle": AscentSettings(objective="angle", step="ascend", steps=12, seed=531),
        "pgd": PGDSettings(repeats=3),
        "ifia": IFIASettings(steps=50),
    }


PRESETS: dict[str, Preset] = {
    "quick": Preset(("first_order", "mean_value"), _quick, MeanValueSettings(shells=2, rounds=1)),
    # Its theorems are about whole balls.
    "paper": Preset(("first_order",), _paper, value_range="none"),
    "strong": Preset(CLAIMS, _strong),
}


def complete(settings: AuditSettings) -> AuditSettings:
    """``settings`` with everything they leave open taken from their protocol.

    Complete settings stay as they are. Without a calibration no preset claims
    ``calibrated``.
    """
    preset = PRESETS[settings.protocol]
    claims = settings.claims
    if claims is None:
        claims = tuple(
            claim
            for claim in preset.claims
            if claim != "calibrated" or settings.calibration is not None
        )
        if settings.calibration is not None and "calibrated" not in claims:
            claims = (*claims, "calibrated")
    attacks = settings.attacks
    if attacks is None:
        attacks = preset.attacks(tuple(dict.fromkeys(ball.norm for ball in settings.balls)))
    return replace(
        settings,
        claims=tuple(sorted(claims, key=CLAIMS.index)),
        attacks=dict(sorted(attacks.items())),
        first_order=settings.first_order or FirstOrderSettings(),
        mean_value=settings.mean_value or preset.mean_value,
        certified=settings.certified or CertifiedSettings(),
        value_range=settings.value_range or preset.value_range,
    )
