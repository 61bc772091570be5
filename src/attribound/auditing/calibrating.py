"""Calibrations from a finished run: its attacks and bounds are all that they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import torch
from torch import nn

from attribound.attacks import BestOf
from attribound.attributions import Attribution
from attribound.auditing.cells import Cell, cells
from attribound.auditing.given import own_copy, subject_of
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.auditing.store import Run
from attribound.auditing.subject import Subject
from attribound.balls import Ball
from attribound.basics.errors import InputError, ModelError
from attribound.bounding.calibrated import Calibration, Provenance
from attribound.bounding.calibrated.conformal import Group, check_alpha
from attribound.bounding.calibrated.procedure import by_group, refuse_too_few, score
from attribound.bounding.calibrated.provenance import Subject as Whose
from attribound.bounding.calibrated.provenance import (
    about,
    check_subject,
    code_of,
    described,
    identify,
    installed_version,
    recorded,
)
from attribound.bounding.method import Method
from attribound.values import name_of, to_spec


@dataclass(frozen=True)
class FromRun:
    """How the rows of a run are made calibrations.

    Attributes:
        alpha: probability that a new sample is moved further than its calibrated bound.
        base: the claim whose bounds are scaled; the run must have it.
        by_class: a factor for every predicted class; takes as many samples of each.
        subject: of a run with a smooth copy, whose deviations the bounds of the copy shall
            withstand: those of your own network, or of the copy.
    """

    alpha: float = 0.05
    base: str = "first_order"
    by_class: bool = False
    subject: Whose = "yours"

    def __post_init__(self) -> None:
        """Refuse what is no probability, and no subject."""
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        check_subject(self.subject)

    def __call__(
        self, run: Run, model: nn.Module | None = None
    ) -> dict[tuple[str, Ball], Calibration]:
        """A calibration for every attribution and ball of a finished run.

        The guarantee is about the furthest of the attacks of the run, on samples
        exchangeable with its samples, and bounds of the same effort: audit others of the
        same data (``skip``) with the same protocol. With a smooth copy these are the attacks on
        the network itself, among them all that was found on the copy.

        Args:
            run: finished, without a sample that failed.
            model: the one that was audited, if that was an object of a program.

        Raises:
            InputError: the run cannot serve, or has too few samples.
            ModelError: the model is not the one of the run.
        """
        settings = read_settings(run.manifest.settings)
        base = self._base(settings)
        _refuse_unattacked(settings, own=self.subject == "yours")
        _refuse_unfinished(run)
        subject = _subject(run, settings, model)
        balls = {(ball.name, ball.epsilon): ball for ball in settings.balls}
        found = {}
        for cell in cells(run.rows()):
            ball, attribution = (
                balls[cell.ball, cell.epsilon],
                subject.attributions[cell.attribution],
            )
            found[cell.attribution, ball] = self._calibration(
                attribution, ball, base, cell, settings
            )
        return found

    def _calibration(
        self,
        attribution: Attribution,
        ball: Ball,
        base: Method,
        cell: Cell,
        settings: AuditSettings,
    ) -> Calibration:
        attacked = about(attribution, self.subject)
        whose, original = recorded(attribution, attacked)
        targets = cell.rows["target"].to_pylist()
        groups: list[Group] = targets if self.by_class else [None] * len(cell)
        refuse_too_few(groups, self.alpha)
        reached = cell.yours if whose == "yours" else cell.strongest
        deviation, bound = (
            torch.from_numpy(values) for values in (reached("deviation"), cell.bound(self.base))
        )
        made = [each for each in settings.made_attacks.values() if each.applies(ball)]
        attack = _together([to_spec(each, whole=True) for each in made])
        if original is not None:
            on_yours = [each for each in settings.made_own_attacks.values() if each.applies(ball)]
            listed = [to_spec(each, whole=True) for each in on_yours]
            # What was found on the copy was judged on the network, too.
            found_on_copy = [{"kind": "transferred", "attack": attack}] if made else []
            attack = _together([*listed, *found_on_copy])
            made += on_yours
        provenance = Provenance(
            model=identify(attribution),
            attribution=described(attribution),
            ball=ball,
            target="predicted",
            base=base,
            attack=attack,
            code=code_of(attribution, ball, base, *made),
            version=installed_version(),
            subject=whose,
            original=original,
        )
        return Calibration(
            self.alpha, by_group(score(deviation, bound).tolist(), groups), provenance
        )

    def _base(self, settings: AuditSettings) -> Method:
        # A method that knows no attack is the same function of every sample, and can be scaled;
        # in audits none does.
        made = {method.claim.name: method for method in settings.claims or ()}
        if self.base not in made:
            raise InputError(
                "base",
                expected=f"a bound of the run: {' or '.join(made) or 'it has none'}",
                got=self.base,
                remedy="choose another, or audit with that claim",
            )
        return made[self.base]


def _together(attacks: list[Any]) -> Any:
    """Several attacks, as plain data, as the one that is the furthest of them."""
    return attacks[0] if len(attacks) == 1 else {"kind": name_of(BestOf), "attacks": attacks}


def _refuse_unattacked(settings: AuditSettings, *, own: bool) -> None:
    attacks = [*(settings.attacks or {}).values()]
    if own:
        attacks += (settings.own_attacks or {}).values()
    for ball in settings.balls:
        if not any(attack.applies(ball) for attack in attacks):
            raise InputError(
                "run",
                expected="attacks in every ball",
                got=f"none in {ball.name}",
                remedy="audit with attacks: a calibration says what withstands them",
            )


def _refuse_unfinished(run: Run) -> None:
    if not run.finished:
        raise InputError(
            f"run {run.path}",
            expected="a finished one",
            got=f"{len(run.done())} of {run.manifest.batches} batches",
            remedy=f"go on with attribound audit --out {run.path} --resume",
        )
    rows = run.rows()
    failed = rows.filter(pc.is_valid(rows["error"]))
    if len(failed):
        raise InputError(
            f"run {run.path}",
            expected="numbers for every sample",
            got=f"{len(failed)} rows that failed, the first with {failed['error'][0].as_py()!r}",
            remedy="find out why; leaving the samples out would void the guarantee",
        )


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
