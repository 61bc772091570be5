"""Calibrate: attack and bound the calibration samples, keep the order statistic of the ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from rich.progress import track
from torch import Tensor

from attribound.attacks import Attack, AttributionAscent
from attribound.attributions import Attribution
from attribound.balls import Ball
from attribound.basics.errors import InputError
from attribound.basics.tensors import ratio
from attribound.bounding.calibrated.calibration import Calibration
from attribound.bounding.calibrated.conformal import Group, Scores, check_alpha, needed
from attribound.bounding.calibrated.provenance import (
    Provenance,
    code_of,
    described,
    identify,
    installed_version,
    refuse_settings_per_example,
)
from attribound.bounding.first_order import FirstOrder
from attribound.bounding.method import Method, Question
from attribound.networks.inputs import Target, check_inputs
from attribound.values import NO_SETTING, Value, register, to_spec

_AT_ONCE = 64  # examples between two steps of the progress bar


@register("split_conformal")
@dataclass(frozen=True)
class SplitConformal(Value):
    """How a bound is calibrated.

    The base bound must be a fixed function of the sample, computed alike for calibration and
    new samples: so it is never shown the attack that is held against it.

    Attributes:
        attack: what the bound shall withstand; the guarantee is about this one.
        alpha: probability that a new sample is moved further than its calibrated bound.
        base: the bound that is scaled.
        by_class: a factor for every explained class (the predicted one, unless labels are
            given), each with a guarantee of its own (Mondrian); takes as many samples
            *per class*, and a class with fewer gets an infinite factor.
        progress: show a progress bar on the terminal.
    """

    attack: Attack = field(default_factory=lambda: AttributionAscent(random_starts=4))
    alpha: float = 0.05
    base: Method = field(default_factory=FirstOrder)
    by_class: bool = False
    progress: bool = field(default=False, compare=False, metadata=NO_SETTING)

    def __post_init__(self) -> None:
        """Refuse a probability, an attack or a base that is none."""
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        if not isinstance(self.attack, Attack):
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

    Args:
        attribution: g, e.g. ``ab.IntegratedGradients(model)``; one baseline for all.
        x: calibration samples ``(batch, *features)``, at least 1 / alpha - 1 of them.
        ball: the perturbations; the factor holds for this radius and range only.
        target: labels to explain; default: the predicted class.
        method: attack, alpha, base bound, by class or not, progress.
    """
    settings = method or SplitConformal()
    x = check_inputs(x)
    refuse_settings_per_example(attribution, x)
    model, recipe = identify(attribution), described(attribution)
    labels = attribution.targets(x, target)
    groups: list[Group] = labels.tolist() if settings.by_class else [None] * len(x)
    refuse_too_few(groups, settings.alpha)

    scores: list[float] = []
    starts = range(0, len(x), _AT_ONCE)
    for start in track(starts, "calibrating", disable=not settings.progress):
        rows, own = (t[start : start + _AT_ONCE] for t in (x, labels))
        question = Question(attribution, rows, ball, own, wanted=(settings.base,))
        base = question.bound(settings.base)
        found = settings.attack(attribution, rows, ball, own)
        scores += score(found.deviation, base.euclidean).tolist()
    provenance = Provenance(
        model=model,
        attribution=recipe,
        ball=ball,
        target="predicted" if target is None else "given",
        base=settings.base,
        attack=to_spec(settings.attack, whole=True),
        code=code_of(attribution, ball, settings.base, settings.attack),
        version=installed_version(),
    )
    return Calibration(settings.alpha, by_group(scores, groups), provenance)


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
