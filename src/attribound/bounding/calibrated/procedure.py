"""Calibrate: attack and bound the calibration samples, keep the order statistic of the ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import NoneType

import torch
from rich.progress import track
from torch import Tensor

from attribound.attacks import Attack, AttributionAscent, earnest
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError, KinkError
from attribound.basics.tensors import ratio
from attribound.bounding.calibrated.calibration import Calibration
from attribound.bounding.calibrated.conformal import Group, Scores, check_alpha, needed
from attribound.bounding.calibrated.provenance import (
    Provenance,
    Subject,
    about,
    check_subject,
    code_of,
    described,
    first_of_each,
    identify,
    installed_version,
    recorded,
    refuse_settings_per_example,
    sample_hashes,
)
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.method import Method, Question
from attribound.networks.inputs import Target, check_inputs
from attribound.networks.subject import copy_of
from attribound.results import Attacked
from attribound.values import NO_SETTING, Value, register, to_spec

_AT_ONCE = 64  # examples between two steps of the progress bar


@register("split_conformal")
@dataclass(frozen=True)
class SplitConformal(Value):
    """How a bound is calibrated.

    The base bound must be a fixed function of the sample, computed alike for calibration and
    new samples: so it is never shown the attack that is held against it.

    Attributes:
        attack: what the bound shall withstand; the guarantee is about this one. Default: an
            ascent with 4 random starts; on a network that a smooth copy stands for
            :func:`attribound.attacks.earnest`.
        alpha: probability that a new sample is moved further than its calibrated bound.
        base: the bound that is scaled.
        by_class: a factor for every explained class (the predicted one, unless labels are
            given), each with a guarantee of its own (Mondrian); takes as many samples
            *per class*, and a class with fewer gets an infinite factor.
        subject: where the attribution is of a smooth copy, whose deviations the bound shall
            withstand: those of your own network, or of the copy. Without a copy both are the same.
        progress: show a progress bar on the terminal.
    """

    attack: Attack | None = None
    alpha: float = 0.05
    base: Method = field(default_factory=FirstOrder)
    by_class: bool = False
    subject: Subject = "yours"
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Refuse a probability, an attack or a base that is none."""
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        if not isinstance(self.attack, (Attack, NoneType)):
            raise InputError(
                "attack",
                expected="an attack",
                got=repr(self.attack),
                remedy="use e.g. attribound.attacks.AttributionAscent(random_starts=4)",
            )
        if not isinstance(self.base, Method):
            raise InputError(
                "base",
                expected="the method of a bound",
                got=repr(self.base),
                remedy="use e.g. FirstOrder() or MeanValue()",
            )
        check_subject(self.subject)

    def attack_on(self, attribution: Attribution) -> Attack:
        """The attack, or the default on what stands for a network with kinks and on others."""
        if self.attack is not None:
            return self.attack
        classifier = attribution.classifier
        copied = None if classifier is None else copy_of(classifier.model)
        if copied is None or self.subject == "copy":
            return AttributionAscent(random_starts=4)
        return earnest(copied.beta)


def calibrate(
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    target: Target = None,
    method: SplitConformal | None = None,
) -> Calibration:
    """The factor that makes a base bound hold against an attack for 1 - alpha of new samples.

    Every calibration sample is attacked and bounded; its score is the deviation attained
    divided by the bound (0 / 0 is 0). The factor is the k-th smallest of n scores,
    k = ceil((n + 1)(1 - alpha)). A new sample that is exchangeable with these (same
    source, not used in training, not selected otherwise) then stays below factor times
    bound with probability at least 1 - alpha. See :class:`Calibration` for what is not
    said.

    If the attribution is of a smooth copy, it is the user's own network that is attacked, and
    what it predicts that is explained: the calibrated bound speaks of that network, whatever
    the bound of its copy is worth there. ``SplitConformal(subject="copy")`` asks about the copy.

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)``; one baseline for all.
        x: calibration samples ``(batch, *features)``, at least 1 / alpha - 1 of them; equal ones
            count once.
        ball: the perturbations; the factor holds for this radius and range only.
        target: labels to explain; default: the predicted class.
        method: attack, alpha, base bound, by class or not, progress.
    """
    settings = method or SplitConformal()
    x = check_inputs(x)
    refuse_settings_per_example(attribution, x)
    model, recipe = identify(attribution), described(attribution)
    attacked, attack = about(attribution, settings.subject), settings.attack_on(attribution)
    subject, original = recorded(attribution, attacked)
    labels = attacked.targets(x, target)
    hashes = sample_hashes(x)
    once = first_of_each(hashes)  # copies of a sample are no new evidence
    x, labels = x[once], labels[once]
    groups: list[Group] = labels.tolist() if settings.by_class else [None] * len(x)
    refuse_too_few(groups, settings.alpha)

    scores: list[float] = []
    starts = range(0, len(x), _AT_ONCE)
    for start in track(starts, "calibrating", disable=not settings.progress):
        rows, own = (t[start : start + _AT_ONCE] for t in (x, labels))
        question = Question(attribution, rows, ball, own, wanted=(settings.base,))
        base = question.bound(settings.base)
        found = _attacked(attack, attacked, rows, ball, own)
        scores += score(found.deviation, base.euclidean).tolist()
    provenance = Provenance(
        model=model,
        attribution=recipe,
        ball=ball,
        target="predicted" if target is None else "given",
        base=settings.base,
        attack=to_spec(attack, whole=True),
        code=code_of(attribution, ball, settings.base, attack),
        version=installed_version(),
        subject=subject,
        original=original,
        samples=tuple(sorted({*hashes})),
    )
    return Calibration(settings.alpha, by_group(scores, groups), provenance)


def _attacked(
    attack: Attack, attribution: Attribution, x: Tensor, ball: Ball, labels: Tensor
) -> Attacked:
    try:
        return attack(attribution, x, ball, labels)
    except KinkError as error:
        raise InputError(
            "attack",
            expected="one that can be made on your network, which has kinks",
            got="one that climbs its slopes",
            remedy="climb a smooth copy: attack.through(beta); or leave the attack out; or "
            "calibrate about the copy: SplitConformal(subject='copy')",
        ) from error


def by_group(scores: Sequence[float], groups: Sequence[Group]) -> Scores:
    """The scores of every class, sorted; of all under None."""
    return {
        group: tuple(sorted(s for s, own in zip(scores, groups, strict=True) if own == group))
        for group in sorted(set(groups), key=lambda g: -1 if g is None else g)
    }


def score(deviation: Tensor, bound: Tensor) -> Tensor:
    """Deviation attained / base bound of each example, in float64, with 0 / 0 = 0.

    Infinite where a bound of zero was exceeded. NaN is refused: it has no rank.
    """
    deviation, bound = (v.detach().cpu().double() for v in (deviation, bound))
    scores = ratio(deviation, bound)
    bad = torch.isnan(scores).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            "scores",
            expected="a number for every calibration sample",
            got=f"{len(bad)} that are NaN, the first with deviation {deviation[bad[0]]:g} and "
            f"bound {bound[bad[0]]:g}",
            remedy="find out why the attack or the bound fails there, e.g. use float64; leaving "
            "the samples out would void the guarantee",
        )
    return scores


def refuse_too_few(groups: Sequence[Group], alpha: float) -> None:
    """Refuse samples of which no class has enough for a finite factor."""
    enough = needed(alpha)
    ((label, most),) = Counter(groups).most_common(1)
    if most < enough:
        of = "" if label is None else " of one class at least"
        got = str(most) if label is None else f"at most {most} (class {label})"
        raise InputError(
            "calibration samples",
            expected=f"{enough} or more{of} for alpha={alpha:g} (1 / alpha - 1)",
            got=got,
            remedy="there is no finite factor: use more samples or a larger alpha"
            + ("" if label is None else ", or by_class=False"),
        )
