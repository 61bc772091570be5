"""The claim *calibrated*: the base bound of a calibration times its factor."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import norm
from attribound.bounding.calibrated.calibration import Calibration
from attribound.bounding.calibrated.provenance import about, sample_hashes
from attribound.bounding.method import Method, Question
from attribound.bounding.restate import counted, restate
from attribound.results import YOURS, Bound, Claim, Status, register_claim
from attribound.values import NO_SETTING


@dataclass(frozen=True, eq=False)
class Calibrated(Method):
    """A calibrated bound: the base bound of a calibration times its factor.

    Of a calibration about the network that a smooth copy stands for, the bound speaks of that
    network: its label is explained, its map has the angle. What is said of the Jacobian (``xi``,
    ``direction``, ``values``) is the copy's all the same.

    Attributes:
        folder: a file that :meth:`Calibration.save` wrote, or a folder of them; the one that
            is for the attribution and ball in question is used.
        calibration: the calibration itself, in place of a folder.
    """

    folder: str | None = None
    calibration: Calibration | None = field(default=None, repr=False, metadata=NO_SETTING)
    may_not_apply: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibrated) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.folder, id(self.calibration)

    @property
    def ready(self) -> bool:
        """Whether there are calibrations."""
        return self.folder is not None or self.calibration is not None

    def files(self) -> tuple[Path, ...]:
        """The files of the calibrations, read once: audits ask before they begin.

        Raises:
            InputError: there is no calibration, or one that cannot be read.
        """
        if self.folder is None:
            return ()
        place = Path(self.folder)
        found = tuple(sorted(place.glob("*.json")) if place.is_dir() else [place])
        if not found or not found[0].is_file():
            raise InputError(
                f"folder of calibrations {place}",
                expected="files that Calibration.save or attribound calibrate wrote",
                got="none in it" if place.is_dir() else "nothing of that name",
                remedy="check the path; attribound calibrate RUN --out FOLDER makes them",
            )
        _stored(found)
        return found

    def bound(self, question: Question) -> Bound:
        """The factor times the base bound, computed as for the calibration."""
        own = self._fitting(question.attribution, question.ball)
        # The base must not know the attacks of this call: the calibration's did not either.
        asked = question.blind()
        yours = _Yours.of(own, asked)
        if yours is not None:
            asked = yours.question
        base = asked.bound(own.base)
        value = own.apply(asked.attribution, base, asked.ball, asked.x)
        if yours is not None:
            base = yours.said_of(base)
        source = tuple(
            f"{own.factor_of(label):.4g} x {base.claim}" for label in base.target.tolist()
        )
        made = restate(base, value, CALIBRATED, source, base.products)
        both = zip(made.status, _knows(own, asked.x), strict=True)
        status = tuple(each | Status.CALIBRATED_WITH if seen else each for each, seen in both)
        return replace(made, status=status)

    def _fitting(self, attribution: Attribution, ball: Ball) -> Calibration:
        known = (self.calibration,) if self.calibration else _stored(self.files())
        faults = [each.fault(attribution, ball) for each in known]
        for each, fault in zip(known, faults, strict=True):
            if fault is None:
                return each
        if len(faults) == 1 and faults[0] is not None:
            raise faults[0]
        raise InputError(
            "calibration",
            expected="one for this model, attribution and ball",
            got=f"{len(faults)} others" if faults else "none",
            remedy="pass method=attribound.calibrate(attribution, samples, ball), or the folder "
            "that such were saved in: attribound.Calibrated(folder)",
        )


def _knows(calibration: Calibration, x: Tensor) -> list[bool]:
    """Of each sample whether the calibration was made with it."""
    known = frozenset(calibration.provenance.samples)
    return [each in known for each in sample_hashes(x)] if known else [False] * len(x)


@dataclass(frozen=True, eq=False)
class _Yours:
    """A question about the network that a smooth copy stands for, and what it knows of itself.

    Attributes:
        network: the attribution of the network itself.
        question: about its labels.
        predicted: its labels.
    """

    network: Attribution
    question: Question
    predicted: Tensor

    @classmethod
    def of(cls, calibration: Calibration, question: Question) -> _Yours | None:
        """None if the calibration is about what is bounded."""
        if calibration.provenance.original is None:
            return None
        network = about(question.attribution, "yours")
        predicted = network.targets(question.x)
        left_open = question.predicted and calibration.provenance.target == "predicted"
        if left_open and not torch.equal(predicted, question.target):
            # The copy would explain another class than the network that this is about.
            question = replace(question, target=predicted, made={}, seconds={})
        return cls(network, question, predicted)

    def said_of(self, base: Bound) -> Bound:
        """The bound of the copy, with what is the network's own in place of the copy's."""
        x, target = self.question.x, base.target
        scores = self.network(x, target)
        length = norm(scores)
        flags = {
            Status.ZERO_ATTRIBUTION: length == 0,
            Status.MISCLASSIFIED: self.predicted != target,
            Status.COPY_DISAGREES: self.predicted != self.question.attribution.targets(x),
        }
        status = list(base.status)
        for flag, applies in flags.items():
            status = [
                (own & ~flag) | (flag if applied else Status.CONVERGED)
                for own, applied in zip(status, applies.tolist(), strict=True)
            ]
        changed = replace(
            base, subject=YOURS, attribution_norm=length, label=None, status=tuple(status)
        )
        return counted(changed, self.network.steps_needed(x, target, scores))


CALIBRATED = register_claim(
    Claim(
        "calibrated",
        title="calibrated",
        order=30,
        promise="Holds with the stated probability for exchangeable samples and this attack.",
        method=Calibrated,
        held="It is promised for new samples like those it was calibrated on, and for the attack "
        "it was calibrated with.",
        exceeded="It may be exceeded on the share of samples it was calibrated for: compare the "
        "two.",
        expected=True,
        colour="#e69f00",
        symbol="square",
    )
)


def _stored(files: tuple[Path, ...]) -> list[Calibration]:
    return [_read(file, file.stat().st_mtime_ns) for file in files]


@functools.lru_cache(maxsize=256)
def _read(file: Path, changed: int) -> Calibration:  # noqa: ARG001 - another file if it changed
    return Calibration.load(file)
