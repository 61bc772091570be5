"""Which attacks an audit holds bounds against, as settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from attribound.attacks import (
    IFIA,
    PGD,
    Angle,
    Ascend,
    Attack,
    AttributionAscent,
    Distance,
    Jump,
    MassCentre,
    RandomPerturbation,
    TopK,
)
from attribound.auditing.strict import Strict, check


@dataclass(frozen=True)
class _Repeated(Strict, ABC):
    """What all attacks have.

    Attributes:
        repeats: so often with other seeds.
        norms: only in balls of these norms, e.g. ``["l2"]``; none given: in all.
        seed: the audit's own is added.
    """

    repeats: int = 1
    norms: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an attack that is never made."""
        check("repeats", self.repeats, self.repeats >= 1, "1 or more", "the paper repeats 20 times")

    def applies(self, norm: str) -> bool:
        """Whether it is made in balls of that norm."""
        return not self.norms or norm in self.norms

    @abstractmethod
    def single(self, k: int) -> Attack:
        """One attack."""

    def build(self, k: int, seed: int) -> Attack:
        """The attack with its repeats; ``k`` features are what IFIA looks at by default."""
        # Far apart, so that no two seeds of audits meet, nor one those that bounds search with.
        one = self.single(k).seeded(self.seed + 1_000_003 * seed)
        return one.repeat(self.repeats) if self.repeats > 1 else one


@dataclass(frozen=True)
class AscentSettings(_Repeated):
    """:class:`AttributionAscent`: climbs the deviation or the angle itself.

    Attributes:
        step: ``jump`` to the best point for the slope, or ``ascend`` by projected gradients.
        keep_label: only perturbations that keep the prediction.
    """

    kind: Literal["ascent"] = "ascent"
    objective: Literal["distance", "angle"] = "distance"
    step: Literal["jump", "ascend"] = "jump"
    steps: int = 12
    random_starts: int = 0
    keep_label: bool = False

    def single(self, k: int) -> Attack:  # noqa: ARG002
        """One attack."""
        return AttributionAscent(
            objective=Distance() if self.objective == "distance" else Angle(),
            steps=self.steps,
            step=Jump() if self.step == "jump" else Ascend(),
            random_starts=self.random_starts,
            keep="best_label_kept" if self.keep_label else "best",
        )


@dataclass(frozen=True)
class PGDSettings(_Repeated):
    """:class:`PGD` on the prediction, the paper's attack in l2 balls."""

    kind: Literal["pgd"] = "pgd"
    loss: Literal["cross_entropy", "kl", "margin"] = "cross_entropy"
    steps: int = 20
    step_size: float | None = None

    def single(self, k: int) -> Attack:  # noqa: ARG002
        """One attack."""
        return PGD(self.loss, self.steps, self.step_size)


@dataclass(frozen=True)
class IFIASettings(_Repeated):
    """:class:`IFIA`, the paper's attack in l-infinity balls; ``k`` by default the audit's."""

    kind: Literal["ifia"] = "ifia"
    objective: Literal["top_k", "mass_centre"] = "top_k"
    k: int | None = None
    steps: int = 200
    step_size: float | None = None

    def single(self, k: int) -> Attack:
        """One attack."""
        objective = MassCentre() if self.objective == "mass_centre" else TopK(self.k or k)
        return IFIA(objective, self.steps, self.step_size)


@dataclass(frozen=True)
class RandomSettings(_Repeated):
    """:class:`RandomPerturbation`: what an attack must beat."""

    kind: Literal["random"] = "random"

    def single(self, k: int) -> Attack:  # noqa: ARG002
        """One draw."""
        return RandomPerturbation()


AnyAttack = AscentSettings | PGDSettings | IFIASettings | RandomSettings
#: As a field of other settings: told apart by ``kind``.
AttackSettings = Annotated[AnyAttack, Field(discriminator="kind")]
