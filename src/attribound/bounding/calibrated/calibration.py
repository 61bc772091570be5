"""The result of a calibration: factors, the scores behind them, and what they belong to."""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tables import render
from attribound.basics.tensors import round_up
from attribound.bounding.calibrated import storage
from attribound.bounding.calibrated.conformal import Group, Scores, conformal_factor, rank
from attribound.bounding.calibrated.provenance import (
    Provenance,
    about,
    code_of,
    described,
    identify,
    identify_original,
)
from attribound.bounding.method import Method
from attribound.results import Bound, claim_named
from attribound.values import class_of, spec_text, to_text


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

    @property
    def base(self) -> Method:
        """How the bound that is scaled is computed."""
        return self.provenance.base

    def as_method(self) -> Method:
        """What ``attribound.bound`` takes."""
        made: Method = class_of("calibrated", Method)(calibration=self)
        return made

    def check(self, attribution: Attribution, ball: Ball) -> None:
        """Refuse another model, attribution or ball than those of the calibration.

        Args:
            attribution: what is to be bounded.
            ball: where.
        """
        own = self.provenance
        code = code_of(attribution, ball)
        original = None if own.original is None else identify_original(attribution)
        wanted: dict[str, tuple[object, object]] = {
            "model": (own.model, identify(attribution)),
            "network that the smooth copy stands for": (own.original, original),
            "attribution": (own.attribution, described(attribution)),
            "ball": (own.ball, ball),
            "code": ({name: own.code.get(name) for name in code}, code),
        }
        for subject, (calibrated, given) in wanted.items():
            if calibrated != given:
                raise _mismatch(subject, str(calibrated), str(given))

    def fault(self, attribution: Attribution, ball: Ball) -> InputError | None:
        """Why it is not for this attribution and ball; None if it is."""
        try:
            self.check(attribution, ball)
        except InputError as error:
            return error
        return None

    def apply(
        self, attribution: Attribution, base: Bound, ball: Ball, x: Tensor | None = None
    ) -> Tensor:
        """The calibrated bound on the Euclidean deviation of each example, ``(batch,)``.

        Refuses what the calibration does not belong to. Infinite where the factor is.

        Args:
            attribution: what was bounded.
            base: its base bound, computed as for the calibration (:attr:`base`).
            ball: where.
            x: the inputs: needed to ask what your network predicts, if the bound is that of its
                smooth copy and the calibration is about the network itself.
        """
        self.check(attribution, ball)
        self._check_base(base, ball)
        self._check_target(attribution, base, x)
        factors = self.factors
        labels = base.target.tolist()
        every = [factors.get(label if self.by_class else None, math.inf) for label in labels]
        factor = torch.tensor(every, dtype=torch.float64)
        euclidean = base.euclidean.detach().cpu().double()
        # Outwards, so that rounding cannot put it below the deviation that made the factor.
        product = factor * euclidean * (1 + 4 * torch.finfo(torch.float64).eps)
        infinite = factor.isinf() | euclidean.isinf()  # inf * 0 included
        return round_up(torch.where(infinite, math.inf, product), base.euclidean)

    def _check_base(self, base: Bound, ball: Ball) -> None:
        own = self.provenance
        if base.claim is not own.base.claim:
            raise _mismatch("claim of the base bound", str(own.base.claim), str(base.claim))
        if base.ball != ball:
            raise _mismatch("ball of the base bound", repr(ball), repr(base.ball))

    def _check_target(self, attribution: Attribution, base: Bound, x: Tensor | None) -> None:
        """Refuse labels that are not predicted: by the network that the calibration is about."""
        own = self.provenance
        if own.target != "predicted":
            return
        wrong = None if base.label is None else base.label.misclassified
        if own.original is not None:
            if x is None:
                raise InputError(
                    "x",
                    expected="the inputs, to ask your network what it predicts",
                    got="None",
                    remedy="pass x=..., or use attribound.bound(..., method=calibration)",
                )
            wrong = about(attribution, "yours").targets(x) != base.target
        if wrong is not None and wrong.any():
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
            f"Calibration, claim: {claim_named('calibrated')} (factor x {own.base.claim} bound "
            f"holds against this attack with probability >= {1 - self.alpha:.4g})"
        )
        header = ["class", "samples", "rank", "factor", "median score", "largest score"]
        settings = {
            "attribution": spec_text(own.attribution),
            "ball": own.ball,
            "subject": own.subject,
            "target": own.target,
            "base": to_text(own.base),
            "attack": spec_text(own.attack),
            "model": own.model,
            **({} if own.original is None else {"original": own.original}),
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
