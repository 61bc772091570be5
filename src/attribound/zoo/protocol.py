"""How models are measured: images, balls and attacks, as values that cards store."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from attribound.attacks import IFIA, PGD, TopK
from attribound.attributions import Attribution, Classifier, IntegratedGradients, Saliency
from attribound.balls import LpBall
from attribound.basics.errors import InputError

_ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


@dataclass(frozen=True, kw_only=True)
class Ball:
    """A ball as JSON can have it: the norm by name."""

    norm: Literal["l1", "l2", "linf"]
    epsilon: float
    low: float | None
    high: float | None

    def __call__(self) -> LpBall:
        """The ball."""
        return LpBall(self.epsilon, _ORDERS[self.norm], self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """PGD on the cross-entropy from a random start, last iterate.

    Attributes:
        images: the first so many; None for all.
    """

    images: int | None
    ball: Ball
    steps: int
    step_size: float
    seed: int

    @property
    def attack(self) -> PGD:
        """The attack."""
        return PGD(steps=self.steps, step_size=self.step_size, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """An attribution and its settings; the last three are of integrated gradients."""

    method: Literal["saliency", "integrated_gradients"]
    steps: int
    baseline: float
    quadrature: str

    def __call__(self, model: nn.Module) -> Attribution:
        """The attribution of ``model``."""
        # Kinks break bounds; an attack may still climb.
        classifier = Classifier(model, allow_kinks=True)
        if self.method == "saliency":
            return Saliency(classifier)
        return IntegratedGradients(classifier, self.steps, self.baseline, self.quadrature)


@dataclass(frozen=True, kw_only=True)
class Attributions:
    """IFIA on the ``k`` most important features, from a random start, label kept.

    Attributes:
        images: the first so many that are classified correctly; None for all.
    """

    images: int | None
    explanation: Explanation
    ball: Ball
    k: int
    steps: int
    step_size: float
    seed: int

    @property
    def attack(self) -> IFIA:
        """The attack."""
        return IFIA(TopK(self.k), steps=self.steps, step_size=self.step_size, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a model is measured.

    Attributes:
        images: for the accuracy without attack, the first so many; None for all.
        predictions: the attack on predictions.
        attributions: the attack on attributions.
    """

    images: int | None
    predictions: Predictions
    attributions: Attributions

    def whole(self) -> Protocol:
        """The same with predictions attacked on all images."""
        return replace(self, predictions=replace(self.predictions, images=None))

    def limited(self, images: int) -> Protocol:
        """The same with at most so many images for each number."""

        def least(own: int | None) -> int:
            return images if own is None else min(own, images)

        return replace(
            self,
            images=least(self.images),
            predictions=replace(self.predictions, images=least(self.predictions.images)),
            attributions=replace(self.attributions, images=least(self.attributions.images)),
        )


def protocol_of(data: str) -> Protocol:
    """The usual protocol for a data set.

    Raises:
        InputError: there is none for it.
    """
    if data not in PROTOCOLS:
        raise InputError(
            "protocol",
            expected=f"data among {', '.join(PROTOCOLS)}",
            got=repr(data),
            remedy="give a Protocol of your own",
        )
    return PROTOCOLS[data]


def _pixels(
    predictions: tuple[float, int],
    attributions: tuple[float, int, int],
    images: tuple[int | None, int] = (None, 200),
) -> Protocol:
    """Cubes around pixels in [0, 1]: (epsilon, steps) and (epsilon, steps, k), images of each."""
    (epsilon, steps), (radius, iterations, k) = predictions, attributions
    return Protocol(
        images=None,
        predictions=Predictions(
            images=images[0],
            ball=Ball(norm="linf", epsilon=epsilon, low=0.0, high=1.0),
            steps=steps,
            step_size=2.5 * epsilon / steps,
            seed=0,
        ),
        attributions=Attributions(
            images=images[1],
            explanation=Explanation(
                method="integrated_gradients",
                steps=5,
                baseline=0.0,
                quadrature="midpoint",
            ),
            ball=Ball(norm="linf", epsilon=radius, low=0.0, high=1.0),
            k=k,
            steps=iterations,
            step_size=2.5 * radius / iterations,
            seed=0,
        ),
    )


#: By data set. Radii of the attack on predictions are those models are trained against;
#: fewer images where one costs more.
PROTOCOLS: dict[str, Protocol] = {
    "digits": _pixels((0.1, 20), (0.05, 50, 8)),
    "mnist": _pixels((0.3, 40), (0.05, 50, 100), (2000, 200)),
    "fashion-mnist": _pixels((0.1, 20), (0.05, 50, 100)),
    "cifar10": _pixels((8 / 255, 20), (4 / 255, 50, 1000), (2000, 100)),
    "flowers17": _pixels((8 / 255, 20), (4 / 255, 50, 1000), (None, 50)),
}
