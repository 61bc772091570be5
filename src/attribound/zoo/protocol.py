"""How models are measured: images, balls, attributions and attacks, as values that cards store."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribound.attacks import IFIA, PGD, TopK
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.values import Record


@dataclass(frozen=True, kw_only=True)
class PredictionCheck(Record):
    """Accuracy under an attack on predictions.

    Attributes:
        images: the first so many; None for all.
    """

    images: int | None
    ball: Ball
    attack: PGD


@dataclass(frozen=True, kw_only=True)
class AttributionCheck(Record):
    """Attributions of images classified correctly, before and after an attack on them.

    Attributes:
        images: the first so many that are classified correctly; None for all.
        attack: on the most important features.
    """

    images: int | None
    attribution: Attribution
    ball: Ball
    attack: IFIA

    def __post_init__(self) -> None:
        """Refuse an attack that has no number of most important features."""
        if not isinstance(self.attack.objective, TopK) or self.attack.objective.k is None:
            raise InputError(
                "attack",
                expected="IFIA on the k most important features",
                got=repr(self.attack.objective),
                remedy="use e.g. IFIA(TopK(100))",
            )

    @property
    def k(self) -> int:
        """How many features are the most important ones."""
        objective = self.attack.objective
        assert isinstance(objective, TopK)
        assert objective.k is not None
        return objective.k


@dataclass(frozen=True, kw_only=True)
class CardProtocol(Record):
    """Everything the numbers of a card depend on besides model and images.

    Attributes:
        images: for the accuracy, the first so many; None for all.
        predictions: for the accuracy under attack.
        attributions: for the similarity of attributions.
    """

    images: int | None
    predictions: PredictionCheck
    attributions: AttributionCheck

    def whole(self) -> CardProtocol:
        """The same with predictions attacked on all images."""
        return replace(self, predictions=replace(self.predictions, images=None))

    def limited(self, images: int) -> CardProtocol:
        """The same with at most so many images for each number."""

        def least(own: int | None) -> int:
            return images if own is None else min(own, images)

        return replace(
            self,
            images=least(self.images),
            predictions=replace(self.predictions, images=least(self.predictions.images)),
            attributions=replace(self.attributions, images=least(self.attributions.images)),
        )
