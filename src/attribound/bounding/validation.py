"""Hold a bound against attacks: who exceeded it, by how much, how often."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.basics.tables import columns, render
from attribound.basics.tensors import ratio
from attribound.results import ATTAINED, Attacked, Bound
from attribound.results.attacked import check_attacked

_ANGLE_TOLERANCE = 1e-4  # degrees, for rounding of the angle itself
#: Units in the last place by which rounding may move a map; a test measures what networks need.
ROUNDINGS = 32


def evaluation_errors(length: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """What rounding of two maps may have added to their distance and, in degrees, to their angle.

    An estimate: :data:`ROUNDINGS` units in the last place of both maps. At tiny radii it is as
    large as the distance; in float64 it is next to nothing.

    Args:
        length: norm of one of them.
        deviation: their distance, as it was computed.
    """
    error = ROUNDINGS * torch.finfo(deviation.dtype).eps * (2 * length + deviation)
    return error, _ANGLE_TOLERANCE + torch.rad2deg(ratio(error, length).clamp_max(torch.pi))


@dataclass(frozen=True, eq=False)
class Validation:
    """A bound and the attacks on it, per example and in summary.

    Attributes:
        bound: what was claimed.
        deviations: Euclidean deviation of every trial, ``(trials, batch)``.
        degrees: their angles.
        labels_kept: whether they kept the label; None without a classifier.
    """

    bound: Bound
    deviations: Tensor
    degrees: Tensor
    labels_kept: Tensor | None

    @property
    def mean_deviation(self) -> Tensor:
        """The paper's hat T_e: mean over trials, per example."""
        return self.deviations.mean(0)

    @property
    def mean_degrees(self) -> Tensor:
        """The paper's hat T_c: mean angle over trials, per example."""
        return self.degrees.mean(0)

    @property
    def max_deviation(self) -> Tensor:
        """What the worst trial attained, per example."""
        return self.deviations.amax(0)

    @property
    def max_degrees(self) -> Tensor:
        """The largest angle attained, per example."""
        return self.degrees.amax(0)

    @property
    def evaluation_error(self) -> Tensor:
        """What rounding of the two maps may have added to each deviation, ``(trials, batch)``."""
        return evaluation_errors(self.bound.attribution_norm, self.deviations)[0]

    @property
    def exceeded(self) -> Tensor:
        """Trials above T_e by more than the evaluation error, ``(trials, batch)``."""
        return self.deviations - self.evaluation_error > self.bound.euclidean

    @property
    def exceeded_degrees(self) -> Tensor:
        """Trials that turned further than the bound by more than the error, ``(trials, batch)``."""
        error = evaluation_errors(self.bound.attribution_norm, self.deviations)[1]
        return self.degrees - error > self.bound.degrees

    @property
    def within_error(self) -> Tensor:
        """Trials above T_e that rounding alone may explain, ``(trials, batch)``."""
        return (self.deviations > self.bound.euclidean) & ~self.exceeded

    @property
    def exceeded_adjusted(self) -> Tensor:
        """Trials above T'_e by more than the evaluation error, ``(trials, batch)``."""
        return self.deviations - self.evaluation_error > self.bound.adjusted

    @property
    def tightness(self) -> Tensor:
        """Largest deviation attained / T_e, per example; above one where it is exceeded."""
        return ratio(self.max_deviation, self.bound.euclidean)

    @property
    def gap(self) -> Tensor:
        """T_e minus the mean deviation, per example, as the paper takes it."""
        return self.bound.euclidean - self.mean_deviation

    @property
    def summary(self) -> dict[str, float]:
        """All of it in numbers.

        ``exceeded`` is the share of examples that some trial moved beyond T_e, ``within_error``
        that of those it moved beyond by no more than what rounding may do,
        ``exceeded_trials`` the share of trials that did; ``mean_exceeded`` the paper's share
        of mean deviations outside T_e. ``r`` and ``r_adjusted`` are the paper's minimum
        gaps, ``r_worst`` the one to the worst trial: negative where the bound is exceeded.
        """
        adjusted = self.bound.adjusted
        kept = self.labels_kept
        return {
            "examples": float(len(self.bound)),
            "trials": float(len(self.deviations)),
            "mean_deviation": _mean(self.mean_deviation),
            "max_deviation": _mean(self.max_deviation),
            "mean_degrees": _mean(self.mean_degrees),
            "max_degrees": _mean(self.max_degrees),
            "bound": _mean(self.bound.euclidean),
            "bound_adjusted": _mean(adjusted),
            "bound_degrees": _mean(self.bound.degrees),
            "exceeded": _mean(self.exceeded.any(0)),
            "exceeded_trials": _mean(self.exceeded),
            "within_error": _mean(self.within_error.any(0) & ~self.exceeded.any(0)),
            "mean_exceeded": _mean(self.gap < 0),
            "exceeded_adjusted": _mean(self.exceeded_adjusted.any(0)),
            "exceeded_trials_adjusted": _mean(self.exceeded_adjusted),
            "exceeded_degrees": _mean(self.exceeded_degrees.any(0)),
            "r": self.gap.min().item(),
            "r_adjusted": (adjusted - self.mean_deviation).min().item(),
            "r_worst": (self.bound.euclidean - self.max_deviation).min().item(),
            "worst_factor": self.tightness.max().item(),
            "undefined_angles": float((self.bound.degrees == 180).sum()),
            "labels_flipped": float("nan") if kept is None else float((~kept).any(0).sum()),
        }

    def __repr__(self) -> str:
        numbers = columns(
            self.mean_deviation,
            self.max_deviation,
            self.bound.euclidean,
            self.bound.adjusted,
            self.tightness,
            self.max_degrees,
            self.bound.degrees,
        )
        flags = zip(
            *(each.any(0).tolist() for each in (self.exceeded, self.within_error)), strict=True
        )
        verdicts = [
            "exceeded" if over else "within evaluation error" if unsure else "holds"
            for over, unsure in flags
        ]
        rows = list(zip(*numbers, verdicts, strict=True))
        figures = self.summary
        title = (
            f"{self.bound.claim} bound against {len(self.deviations)} attacks "
            f"({ATTAINED}): T_e exceeded for {figures['exceeded']:.1%} of examples, T'_e for "
            f"{figures['exceeded_adjusted']:.1%}; smallest gap to the worst attack "
            f"{figures['r_worst']:.4g}"
        )
        header = ["mean", "max", "T_e", "T'_e", "max / T_e", "max degrees", "degrees", "T_e"]
        return render(title, header, rows)


def validate(bound: Bound, *attacked: Attacked) -> Validation:
    """Compare a bound with what attacks attained on the same examples.

    Args:
        bound: from :func:`attribound.bound`.
        attacked: results of attacks on the same inputs, targets and ball; trials of
            repeated attacks count one by one.
    """
    if not attacked:
        raise InputError(
            "attacked",
            expected="at least one attack's result",
            got="none",
            remedy="e.g. attribound.attacks.AttributionAscent()(attribution, x, ball)",
        )
    check_attacked(attacked)
    if not isinstance(bound, Bound):
        raise InputError(
            "bound",
            expected="a bound",
            got=type(bound).__name__,
            remedy="use e.g. attribound.bound(attribution, x, ball)",
        )
    trials = [trial for found in attacked for trial in (found.trials or (found,))]
    for trial in trials:
        if len(trial) != len(bound):
            raise InputError(
                "attacked",
                expected=f"{len(bound)} examples, as in the bound",
                got=str(len(trial)),
                remedy="attack the inputs that were bounded",
            )
        if trial.target is not None and not torch.equal(trial.target, bound.target):
            wrong = (trial.target != bound.target).nonzero().flatten().tolist()
            raise InputError(
                "attacked",
                expected="attacks on the map of the class that was bounded",
                got=f"another target in examples {wrong[:10]}",
                remedy="give bound and attack the same target",
            )
        inside = bound.ball.contains(trial.delta, trial.delta, 1e-4)
        if not inside.all():
            raise InputError(
                "attacked",
                expected=f"perturbations in {bound.ball}",
                got=f"{int((~inside).sum())} of {len(trial)} outside",
                remedy="use one ball for bound and attack",
            )
    kept = [trial.label_kept for trial in trials if trial.label_kept is not None]
    return Validation(
        bound=bound,
        deviations=torch.stack([trial.deviation for trial in trials]),
        degrees=torch.stack([trial.degrees for trial in trials]),
        labels_kept=torch.stack(kept) if len(kept) == len(trials) else None,
    )


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
