"""The result of a calibration: factors, the scores behind them, and what they belong to."""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import LpBall
from attribound.basics.errors import InputError
from attribound.basics.tables import render
from attribound.basics.tensors import round_up
from attribound.bounding.calibrated import storage
from attribound.bounding.calibrated.conformal import Group, Scores, conformal_factor, rank
from attribound.bounding.calibrated.provenance import Provenance, describe, identify, stated
from attribound.results import Bound, Claim


@dataclass(frozen=True)
class Calibration:
    """Base bound times factor: holds for a new sample with probability >= 1 - alpha.

    What holds: the deviation that *this attack* attains on a sample exchangeable with the
    calibration samples is at most ``factor`` times its base bound. The probability is
    over the draw of calibration samples and new sample together. Nothing is said about
    stronger attacks, other data, or the worst sample. Nothing is needed of the base
    bound: a bad one makes a large factor, not a false one.

    Attributes:
        alpha: probability of failure.
        scores: deviation / base bound of the calibration samples, sorted; by class, or
            all under None.
        provenance: model, attribution, ball, base bound and attack it belongs to.
    """

    alpha: float
    scores: Scores
    provenance: Provenance

    @property
    def by_class(self) -> bool:
        """Whether every class has its own factor, and its own guarantee."""
        return None not in self.scores

    @property
    def factors(self) -> dict[Group, float]:
        """The factor of every class, infinite where it had too few samples; or one under None."""
        return {group: conformal_factor(own, self.alpha) for group, own in self.scores.items()}

    @property
    def factor(self) -> float:
        """The factor of all samples; refused if there is one per class."""
        if self.by_class:
            raise InputError(
                "factor",
                expected="a calibration with one factor for all classes",
                got="one by class",
                remedy="use factors, or factor_of(label)",
            )
        return self.factors[None]

    @property
    def counts(self) -> dict[Group, int]:
        """How many calibration samples every class had, or all under None."""
        return {group: len(own) for group, own in self.scores.items()}

    def factor_of(self, label: int) -> float:
        """The factor for a sample whose explained class is ``label``: infinite if never seen."""
        return self.factors.get(label, math.inf) if self.by_class else self.factor

    def check(self, attribution: Attribution, ball: LpBall, method: object = None) -> None:
        """Refuse another model, attribution or ball than those of the calibration.

        Args:
            attribution: what is to be bounded.
            ball: where.
            method: how the base bound is computed, if known; compared, too.
        """
        own = self.provenance
        wanted: dict[str, tuple[object, object]] = {
            "model": (own.model, identify(attribution)),
            "attribution": (own.attribution, describe(attribution)),
            "ball": (own.ball, ball),
        }
        if method is not None:
            wanted["base bound"] = (own.base, stated(method))
        for subject, (calibrated, given) in wanted.items():
            if calibrated != given:
                raise _mismatch(subject, str(calibrated), str(given))

    def apply(
        self, attribution: Attribution, base: Bound, ball: LpBall, method: object = None
    ) -> Tensor:
        """The calibrated bound on the Euclidean deviation of each example, ``(batch,)``.

        Refuses what the calibration does not belong to. Infinite where the factor is.

        Args:
            attribution: what was bounded.
            base: its base bound, computed as for the calibration.
            ball: where.
            method: how ``base`` was computed; pass it to have it compared.
        """
        self.check(attribution, ball, method)
        self._check_base(base, ball)
        factors = self.factors
        labels = base.target.tolist()
        every = [factors.get(label if self.by_class else None, math.inf) for label in labels]
        factor = torch.tensor(every, dtype=torch.float64)
        euclidean = base.euclidean.detach().cpu().double()
        # Outwards, so that rounding cannot put it below the deviation that made the factor.
        product = factor * euclidean * (1 + 4 * torch.finfo(torch.float64).eps)
        infinite = factor.isinf() | euclidean.isinf()  # inf * 0 included
        return round_up(torch.where(infinite, math.inf, product), base.euclidean)

    def _check_base(self, base: Bound, ball: LpBall) -> None:
        own = self.provenance
        if base.claim is not own.claim:
            raise _mismatch("claim of the base bound", str(own.claim), str(base.claim))
        if (base.epsilon, base.p) != (ball.epsilon, ball.p):
            expected, got = (f"epsilon={b.epsilon!r}, p={b.p!r}" for b in (ball, base))
            raise _mismatch("ball of the base bound", expected, got)
        wrong = None if base.label is None else base.label.misclassified
        if own.target == "predicted" and wrong is not None and wrong.any():
            rows = wrong.nonzero().flatten().tolist()
            raise _mismatch(
                "target",
                "the predicted class explained",
                f"another one in examples {rows[:10]}",
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, whole or not at all; ``load`` gives an equal one back."""
        storage.save(path, self.alpha, self.scores, self.provenance)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what ``save`` wrote; anything else is refused."""
        return cls(*storage.load(path))

    def __repr__(self) -> str:
        own = self.provenance
        factors = self.factors
        rows = [
            [
                "all" if group is None else group,
                len(scores),
                rank(len(scores), self.alpha),
                factors[group],
                statistics.median(scores),
                scores[-1],
            ]
            for group, scores in self.scores.items()
        ]
        title = (
            f"Calibration, claim: {Claim.CALIBRATED} (factor x {own.claim} bound holds against "
            f"this attack with probability >= {1 - self.alpha:.4g})"
        )
        header = ["class", "samples", "rank", "factor", "median score", "largest score"]
        settings = {
            "attribution": own.attribution,
            "ball": own.ball,
            "target": own.target,
            "base": own.base,
            "attack": own.attack,
            "model": own.model,
            "attribound": own.version,
        }
        lines = [f"{name:<12} {value}" for name, value in settings.items()]
        return "\n".join([render(title, header, rows), *lines])


def _mismatch(subject: str, expected: str, got: str) -> InputError:
    return InputError(
        subject,
        expected=f"{expected} as calibrated",
        got=got,
        remedy="a calibration holds for what it was made with only: use that, or calibrate again",
    )
