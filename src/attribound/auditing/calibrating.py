"""Calibrations from a finished run: its attacks and bounds are all that they need."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import nn

from attribound.attributions import Attribution
from attribound.auditing.audited import own_copy, subject_of
from attribound.auditing.settings import AuditSettings, parse_settings
from attribound.auditing.store import Run
from attribound.auditing.subject import Subject, methods, top
from attribound.balls import LpBall
from attribound.basics.errors import InputError, ModelError
from attribound.bounding.calibrated import Calibration, Provenance
from attribound.bounding.calibrated.conformal import Group, check_alpha
from attribound.bounding.calibrated.procedure import by_group, refuse_too_few, score
from attribound.bounding.calibrated.provenance import describe, identify, installed_version, stated
from attribound.results import Claim

#: Claims whose bounds are the same function of every sample, and can be scaled.
BASES = ("first_order", "mean_value")


@dataclass(frozen=True)
class FromRun:
    """How the rows of a run are made calibrations.

    Attributes:
        alpha: probability that a new sample is moved further than its calibrated bound.
        base: the claim whose bounds are scaled; the run must have it.
        by_class: a factor for every predicted class; takes as many samples of each.
    """

    alpha: float = 0.05
    base: str = "first_order"
    by_class: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        object.__setattr__(self, "alpha", check_alpha(self.alpha))

    def __call__(
        self, run: Run, model: nn.Module | None = None
    ) -> dict[tuple[str, LpBall], Calibration]:
        """A calibration for every attribution and ball of a finished run.

        The guarantee is about the furthest of the attacks of the run, on samples
        exchangeable with its samples, and bounds of the same effort: audit others of the
        same data (``skip``) with the same protocol.

        Args:
            run: finished, without a sample that failed.
            model: the one that was audited, if that was an object of a program.

        Raises:
            InputError: the run cannot serve, or has too few samples.
            ModelError: the model is not the one of the run.
        """
        settings = parse_settings(run.manifest.settings)
        self._refuse_other_base(settings)
        _refuse_unattacked(settings)
        rows = _whole_table(run)
        subject = _subject(run, settings, model)
        return {
            (name, ball): self._calibration(
                attribution, ball, settings, _own(rows, name, balls.norm, ball.epsilon)
            )
            for name, attribution in subject.attributions.items()
            for balls in settings.balls
            for ball in balls.balls
        }

    def _calibration(
        self, attribution: Attribution, ball: LpBall, settings: AuditSettings, rows: pa.Table
    ) -> Calibration:
        groups: list[Group] = rows["target"].to_pylist() if self.by_class else [None] * len(rows)
        refuse_too_few(groups, self.alpha)
        deviation, bound = (
            torch.tensor(rows[name].to_pylist(), dtype=torch.float64)
            for name in ("attack", self.base)
        )
        provenance = Provenance(
            model=identify(attribution),
            attribution=describe(attribution),
            ball=ball,
            target="predicted",
            claim=Claim.named(self.base),
            base=stated(methods(settings)[self.base]),
            attack=_attacks(settings, rows["norm"][0].as_py(), rows["features"][0].as_py()),
            version=installed_version(),
        )
        return Calibration(
            self.alpha, by_group(score(deviation, bound).tolist(), groups), provenance
        )

    def _refuse_other_base(self, settings: AuditSettings) -> None:
        claims = [claim for claim in settings.claims or () if claim in BASES]
        if self.base not in claims:
            raise InputError(
                "base",
                expected=f"a bound of the run: {' or '.join(claims) or 'it has none'}",
                got=self.base,
                remedy="choose another, or audit with that claim",
            )


def _refuse_unattacked(settings: AuditSettings) -> None:
    attacks = (settings.attacks or {}).values()
    for each in settings.balls:
        if not any(attack.applies(each.norm) for attack in attacks):
            raise InputError(
                "run",
                expected="attacks in every ball",
                got=f"none in {each.norm}",
                remedy="audit with attacks: a calibration says what withstands them",
            )


def _whole_table(run: Run) -> pa.Table:
    if not run.finished:
        raise InputError(
            f"run {run.path}",
            expected="a finished one",
            got=f"{len(run.done())} of {run.manifest.batches} batches",
            remedy=f"go on with attribound audit --out {run.path} --resume",
        )
    rows = run.table()
    failed = rows.filter(pc.is_valid(rows["error"]))
    if len(failed):
        raise InputError(
            f"run {run.path}",
            expected="numbers for every sample",
            got=f"{len(failed)} rows that failed, the first with {failed['error'][0].as_py()!r}",
            remedy="find out why; leaving the samples out would void the guarantee",
        )
    return rows


def _subject(run: Run, settings: AuditSettings, model: nn.Module | None) -> Subject:
    subject = subject_of(settings, None if model is None else own_copy(model))
    stored = run.manifest.model["fingerprint"]
    if subject.fingerprint != stored:
        raise ModelError(
            f"model {subject.name}",
            expected=f"the one of the run ({stored})",
            got=subject.fingerprint,
            remedy="use the files that the run was made with, or audit again",
        )
    return subject


def _own(rows: pa.Table, attribution: str, norm: str, epsilon: float) -> pa.Table:
    """The rows of one attribution and ball."""
    return rows.filter(
        (pc.field("attribution") == attribution)
        & (pc.field("norm") == norm)
        & (pc.field("epsilon") == epsilon)
    )


def _attacks(settings: AuditSettings, norm: str, features: int) -> str:
    """The attacks in balls of a norm, as text."""
    made = {
        name: attack.build(top(settings, features), settings.seed)
        for name, attack in (settings.attacks or {}).items()
        if attack.applies(norm)
    }
    return "the furthest of " + ", ".join(f"{name}: {stated(each)}" for name, each in made.items())
