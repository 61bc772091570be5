"""Calibrations from a finished run: its attacks and bounds are all that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import torch
from torch import nn

from attribound.attacks import BestOf
from attribound.attributions import Attribution
from attribound.auditing.cells import Cell, cells
from attribound.auditing.given import GIVEN, Data, Samples, own_copy, samples_of, subject_of
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.auditing.store import Run
from attribound.auditing.subject import Subject
from attribound.balls import Ball
from attribound.basics.errors import InputError, ModelError
from attribound.bounding.calibrated import Calibrated, Calibration, Provenance
from attribound.bounding.calibrated.conformal import Group, check_alpha
from attribound.bounding.calibrated.procedure import by_group, refuse_too_few, score
from attribound.bounding.calibrated.provenance import Subject as Whose
from attribound.bounding.calibrated.provenance import (
    about,
    check_subject,
    code_of,
    described,
    first_of_each,
    identify,
    installed_version,
    recorded,
    sample_hashes,
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
        self, run: Run, model: nn.Module | None = None, data: Data | None = None
    ) -> dict[tuple[str, Ball], Calibration]:
        """A calibration for every attribution and ball of a finished run.

        The guarantee is about the furthest of the attacks of the run, on samples
        exchangeable with its samples, and bounds of the same effort: audit others of the
        same data (``skip``) with the same protocol. With a smooth copy these are the attacks on
        the network itself, among them all that was found on the copy.

        Args:
            run: finished, without a sample that failed.
            model: the one that was audited, if that was an object of a program.
            data: what it was audited on, if that was one.

        Raises:
            InputError: the run cannot serve, or has too few samples.
            ModelError: the model is not the one of the run.
        """
        settings = read_settings(run.manifest.settings)
        base = self._base(settings)
        _refuse_unattacked(settings, own=self.subject == "yours")
        _refuse_unfinished(run)
        subject = _subject(run, settings, model)
        hashes = _hashes(run, settings, data)
        balls = {(ball.name, ball.epsilon): ball for ball in settings.balls}
        found = {}
        for cell in cells(run.rows()):
            ball, attribution = (
                balls[cell.ball, cell.epsilon],
                subject.attributions[cell.attribution],
            )
            made = self._calibration(attribution, ball, base, _once(cell, hashes), settings)
            known = replace(made.provenance, samples=tuple(sorted({*hashes.values()})))
            found[cell.attribution, ball] = replace(made, provenance=known)
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


def hashes_of(samples: Samples) -> dict[int, str]:
    """A hash of each sample by its index in the data; see calibrations."""
    return {
        index: each
        for start in range(0, len(samples), samples.size)
        for own in [samples.indices[start : start + samples.size]]
        for index, each in zip(own.tolist(), sample_hashes(samples.examples.read(own)), strict=True)
    }


def refuse_calibration_samples(settings: AuditSettings, samples: Samples) -> None:
    """Refuse to audit calibrated bounds on the samples that they were calibrated on.

    Raises:
        InputError: some are among them; the promise is about new ones alone.
    """
    files = [
        file
        for method in settings.claims or ()
        for file in (method.files() if isinstance(method, Calibrated) else ())
    ]
    seen: set[str] = set()
    for file in files:
        own = Calibration.load(file).provenance.samples
        if not own:
            raise InputError(
                f"calibration file {file.name}",
                expected="hashes of the samples it was made with, to leave these out",
                got="none",
                remedy="calibrate again: attribound calibrate, or attribound.calibrate",
            )
        seen |= {*own}
    both = [index for index, each in hashes_of(samples).items() if each in seen] if seen else []
    if both:
        raise InputError(
            "samples",
            expected="none that a calibration was made with: it promises nothing about these",
            got=f"{len(both)} of {len(samples)}, the first with index {both[0]}",
            remedy="audit others: --skip N leaves out what an audit with --limit N takes",
        )


def _hashes(run: Run, settings: AuditSettings, data: Data | None) -> dict[int, str]:
    """Of each sample of the run, by its index; refused where they are not to be had.

    Without them nobody could tell whether an audit is of other samples.
    """
    if data is None and settings.data.startswith(GIVEN):
        raise InputError(
            "data",
            expected="what the run was given, to recognise its samples in audits",
            got="none",
            remedy="pass the same tensors or data set: FromRun(...)(run, model, data)",
        )
    samples = samples_of(data, settings)
    if samples.fingerprint != run.manifest.data["fingerprint"]:
        raise InputError(
            "data",
            expected=f"the samples of the run, {run.manifest.data['fingerprint']}",
            got=samples.fingerprint,
            remedy="calibrate with the data as they were, or run the audit again",
        )
    return hashes_of(samples)


def _once(cell: Cell, hashes: Mapping[int, str]) -> Cell:
    """Without samples that are copies of others."""
    if not hashes:
        return cell
    rows = first_of_each([hashes[sample] for sample in cell.samples])
    return replace(cell, rows=cell.rows.take(rows))


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
