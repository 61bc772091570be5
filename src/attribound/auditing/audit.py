"""Audit a model on data: every sample bounded and attacked, in a run that survives."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from attribound.auditing.batches import Batch
from attribound.auditing.calibrating import refuse_calibration_samples
from attribound.auditing.engines import Engine, LocalEngine, Work
from attribound.auditing.given import (
    Data,
    Model,
    Samples,
    own_copy,
    ranged,
    refuse_gone,
    samples_of,
    settings_of,
    sharpened,
    subject_of,
)
from attribound.auditing.manifest import Manifest
from attribound.auditing.measure import MeasuredBatch, failed, measure
from attribound.auditing.progress import Unseen, Watcher, preparing, shown
from attribound.auditing.settings import AuditSettings
from attribound.auditing.sources.weights import existing
from attribound.auditing.store import Run
from attribound.auditing.subject import Subject
from attribound.auditing.tables import described, tabled
from attribound.basics.errors import InputError, ModelError
from attribound.basics.numbers import refuse_other
from attribound.basics.whole_files import sha256_of
from attribound.bounding.calibrated.provenance import installed_version
from attribound.values import fingerprints

_PACKAGES = ("torch", "numpy", "pyarrow")


def audit(
    model: Model,
    data: Data | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    engine: Engine | None = None,
    progress: bool | Console = False,
    **settings: Any,
) -> Run:
    """Bound and attack the attributions of ``model`` on every sample; the run has the rows.

    Args:
        model: ``zoo:NAME``, ``MODULE:FACTORY``, a file, a module, or complete settings.
        data: a name, a path, examples, a tensor ``x`` alone, or ``x`` and labels as a pair or a
            ``TensorDataset``.
        out: folder of the run; None for one that goes with the ``Run``.
        resume: go on with the run in ``out``, if it has the same settings, model and data.
        engine: where it is computed; by default in this process.
        progress: show it on standard error, or on that console.
        settings: of :class:`~attribound.auditing.settings.AuditSettings`, as values
            (``attributions=[ab.Saliency()]``, ``balls=ab.L2Ball(0.1)``,
            ``attacks={"pgd": ab.attacks.PGD()}``) or as texts (``"ig:steps=50"``); and by the
            name of a claim its method (``mean_value=ab.MeanValue(shells=8)``). Balls that are
            values are taken as they are: cubes of images without a range have none, unlike
            those of texts; in tables those without a scale get the units of ``table``.

    The rows follow from settings, model and data alone, timings aside (and the number of
    threads, in the last digits). A sample that fails is recorded with its error. Killed at
    any moment, it can be resumed with the same rows as if it had not been.

    Raises:
        AttriboundError: something given is unusable, or the run could not be stored.
    """
    console = Console(stderr=True) if progress is True else progress or None
    if out is not None and not isinstance(out, str):
        refuse_other("out", out, os.PathLike, "name a folder, e.g. runs/first")
    if engine is not None and not callable(getattr(engine, "run", None)):
        raise InputError(
            "engine",
            expected="an engine",
            got=repr(engine),
            remedy="use attribound.LocalEngine(workers=2)",
        )
    with preparing(console):
        whole = settings_of(model, data, settings)
        samples = samples_of(data, whole)
        whole = ranged(whole, data, samples)
        refuse_calibration_samples(whole, samples)
        module = own_copy(model) if isinstance(model, nn.Module) else None
        if module is None:
            refuse_gone(whole)
        whole = tabled(whole, module, samples.examples)
        whole, chosen = sharpened(whole, module, samples)
        subject = subject_of(whole, module)
        if chosen is not None:
            subject.details["smooth"] = chosen
        subject.refuse_kinks(samples.batch(0).x)
        subject.refuse_keep(samples.batch(0).x)
        manifest = _manifest(subject, samples)
    run = Run.resume(out, manifest) if resume and out is not None else Run.create(out, manifest)
    recipe = Recipe(whole, manifest.model["fingerprint"], manifest.inputs, str(Path.cwd()), module)
    work = Work(
        measure=partial(measure, subject),
        prepare=recipe,
        batch=samples.batch,
        failed=partial(failed, whole),
    )
    with run, ExitStack() as stack:
        watch: Watcher = Unseen()
        if console is not None:
            seen = shown(console, len(samples), run.rows(), run.measured)
            watch = stack.enter_context(seen)
        work = replace(work, told=watch.told)
        results = stack.enter_context(closing((engine or LocalEngine()).run(work, run.missing())))
        for number, measured in results:
            run.write(number, measured)
            watch.stored(number, manifest.size(number), measured.rows)
    return run


@dataclass(frozen=True)
class Recipe:
    """How a worker gets the subject: by the settings, or the module itself where it was given.

    Attributes:
        settings: complete.
        fingerprint: of the model that the audit began with.
        inputs: of the other files and code it began with.
        folder: that paths in the settings start from.
        module: None if the settings name it.
    """

    settings: AuditSettings
    fingerprint: str
    inputs: Mapping[str, str]
    folder: str
    module: nn.Module | None

    def __call__(self) -> Callable[[Batch], MeasuredBatch]:
        """The measurement; for a model that changed meanwhile a ``ModelError``."""
        with suppress(OSError):  # another machine may not have this folder
            os.chdir(self.folder)
        subject = subject_of(self.settings, self.module)
        if subject.fingerprint != self.fingerprint:
            raise ModelError(
                f"model {subject.name}",
                expected=f"the one the audit began with ({self.fingerprint})",
                got=f"another in a worker ({subject.fingerprint})",
                remedy="do not change files during an audit; every machine needs the same ones",
            )
        if inputs_of(self.settings) != self.inputs:
            raise InputError(
                "settings",
                expected="the files and code that the audit began with",
                got="others in a worker",
                remedy="do not change files during an audit; every machine needs the same ones",
            )
        return partial(measure, subject)


def _manifest(subject: Subject, samples: Samples) -> Manifest:
    settings = subject.settings
    examples = samples.examples
    return Manifest(
        settings=settings.document(),
        model={"name": subject.name, **subject.details, "fingerprint": subject.fingerprint},
        data={
            "name": examples.name,
            "fingerprint": samples.fingerprint,
            "classes": list(examples.classes),
            "shape": list(examples.shape),
            "examples": len(examples),
            **described(examples),
        },
        versions=_versions(),
        samples=len(samples),
        batch=samples.size,
        rows_per_sample=len(settings.attributions) * len(settings.balls),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        inputs=inputs_of(settings),
    )


def inputs_of(settings: AuditSettings) -> dict[str, str]:
    """SHA-256 of files and of code of a user's own that the settings only name.

    Raises:
        InputError: there is no such file.
    """
    files = [existing(file) for method in settings.claims or () for file in method.files()]
    code = fingerprints(
        settings.attributions,
        settings.balls,
        settings.claims,
        settings.attacks,
        settings.own_attacks,
        settings.protocol,
    )
    return {**{file.name: sha256_of(file) for file in files}, **code}


def _versions() -> dict[str, str]:
    found = {"attribound": installed_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {**found, "python": platform.python_version(), "platform": platform.platform()}
