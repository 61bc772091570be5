"""Integrated gradients, for any baseline and quadrature."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attribound.attributions.base import (
    Attribution,
    Linearization,
    ModelAttribution,
    check_baseline,
    no_reservations,
)
from attribound.attributions.exact import ExactPaths, crossing_limit
from attribound.attributions.hessian import mean_gradient, mean_gradient_and_hessian
from attribound.attributions.quadrature import rule
from attribound.attributions.scaled import ScaledGradientJacobian
from attribound.basics.errors import InputError
from attribound.networks.inputs import Target, check_inputs
from attribound.networks.path import Path
from attribound.values import register

_COMPLETE = 0.05  # of the change in the logit: more is missing than a quadrature should miss
_MOST_STEPS = 800  # that are tried
_ROUNDINGS = 64  # of the sum of all scores: below that nothing is known to be missing


@register("ig")
@dataclass(frozen=True, eq=False)
class IntegratedGradients(ModelAttribution):
    """(x - baseline) times the mean gradient on the way from the baseline to x.

    Its Jacobian is diag(mean gradient) + diag(x - baseline) @ mean Hessian, the
    Hessian at node alpha weighted with alpha (the end of the path moves, its
    points move alpha times as far).

    ``quadrature="exact"`` is the integral itself, of networks that are linear between kinks (ReLU,
    leaky ReLU), with a Jacobian that is exact where there is one: bounds and attacks then
    speak of the network you run, without a smooth copy.

    Attributes:
        steps: number of quadrature nodes; ``exact`` has none.
        baseline: a number, one baseline ``features``, or one per example
            ``(batch, *features)``.
        quadrature: ``riemann_right`` (the paper's), ``midpoint``, ``gauss_legendre``, or
            ``exact``: paths that cross more than 1,000 kinks are refused, ``exact:20000``
            allows 20,000.
        multiply_by_inputs: False leaves the factor (x - baseline) out.
    """

    steps: int = 20
    baseline: float | Tensor = 0.0
    quadrature: str = "riemann_right"
    multiply_by_inputs: bool = True

    def __post_init__(self) -> None:
        """Refuse a rule that there is not."""
        super().__post_init__()
        if self._limit is None:
            rule(self.quadrature, self.steps)
        object.__setattr__(self, "baseline", check_baseline("baseline", self.baseline))

    @property
    def points(self) -> int:  # type: ignore[override]
        """One for each node; of ``exact`` at most one for each crossing that is allowed."""
        return self.steps if self._limit is None else self._limit

    @property
    def crosses_kinks(self) -> bool:
        """Whether it is the integral itself, not a sum over nodes."""
        return self._limit is not None

    @property
    def _limit(self) -> int | None:
        """The most crossings of an exact integral; None of a sum over nodes."""
        return crossing_limit(self.quadrature)

    def climbed(self) -> IntegratedGradients:
        """What leads the same way on smooth copies, which have no exact integral."""
        return self if self._limit is None else replace(self, quadrature="midpoint")

    def check(self, x: Tensor, *, smooth: bool) -> None:
        """Refuse a model that cannot be used on ``x``; ``smooth`` asks for the Jacobian.

        An exact integral has one across kinks. What moved a little from an input that was let
        through may have twice as many crossings.
        """
        if self._limit is None:
            super().check(x, smooth=smooth)
            return
        self.classifier.check(x, smooth=False)
        limit = self._limit if smooth else 2 * self._limit
        self._exact(x).check(self.classifier, limit, jumps=smooth)

    def examples_at_once(self, x: Tensor) -> int:
        """How many examples can be linearized together within the memory limit."""
        if self._limit is None:
            return super().examples_at_once(x)
        jumps = self._limit * x[0].numel() * 8  # bytes of one example, in float64
        return max(1, self.classifier.memory_limit // jumps)

    def _exact(self, x: Tensor, target: Tensor | None = None) -> ExactPaths:
        labels = torch.zeros(len(x), dtype=torch.long) if target is None else target
        return ExactPaths.of(self.classifier, x, self._baseline(x), labels)

    def rows(self, x: Tensor, rows: slice | Tensor) -> Attribution:
        """The same attribution for some rows of the batch ``x``: per-example baselines are cut."""
        if not isinstance(self.baseline, Tensor) or self.baseline.shape != x.shape:
            return self
        return replace(self, baseline=self.baseline[rows])

    def completeness_gap(self, x: Tensor, target: Target = None) -> Tensor:
        """How far the scores of each example are from summing to f(x) - f(baseline).

        Zero for the exact integral; what is left is the error of the quadrature.
        """
        x = check_inputs(x)
        labels = self.targets(x, target)
        return (self._total(x, self(x, labels)) - self._rise(x, labels)).abs()

    def steps_needed(self, x: Tensor, target: Tensor, scores: Tensor) -> Tensor | None:
        """How many steps would make the scores add up to within 5 % of the change in the logit.

        0 where its own do. Where they do not, they are doubled up to 800; -1 where that is not
        enough either. None for exact integrals, which have no steps.
        """
        if self._limit is not None:
            return None
        with torch.no_grad():
            rise = self._rise(x, target)
            lacking = self._missing(x, scores, rise)
            needed = torch.where(lacking, -1, 0)
            base, steps = self._baseline(x), 2 * self.steps
            while lacking.any() and steps <= _MOST_STEPS:
                rows = lacking.nonzero().flatten()
                finer = replace(self, steps=steps, baseline=base[rows])
                values = finer.revalue(x[rows], target[rows])
                done = rows[~finer._missing(x[rows], values, rise[rows])]
                needed[done] = steps
                lacking[done] = False
                steps *= 2
        return needed

    def _missing(self, x: Tensor, scores: Tensor, rise: Tensor) -> Tensor:
        """Where the scores miss the change in the logit by more than 5 % and rounding."""
        rounding = _ROUNDINGS * torch.finfo(x.dtype).eps * self._total(x, scores, absolute=True)
        gap = (self._total(x, scores) - rise).abs()
        return gap > _COMPLETE * rise.abs() + rounding

    def _total(self, x: Tensor, scores: Tensor, *, absolute: bool = False) -> Tensor:
        """What the scores of each example add up to."""
        away = x - self._baseline(x)
        terms = scores if self.multiply_by_inputs else scores * away
        return (terms.abs() if absolute else terms).flatten(1).sum(1)

    def _rise(self, x: Tensor, target: Tensor) -> Tensor:
        """The change in the logit from the baseline to each example."""
        with torch.no_grad():
            rise = self.classifier.logits(x) - self.classifier.logits(self._baseline(x))
        return rise.gather(1, target.unsqueeze(1)).squeeze(1)

    def _baseline(self, x: Tensor) -> Tensor:
        base = torch.as_tensor(self.baseline, dtype=x.dtype, device=x.device)
        if not torch.isfinite(base).all():
            raise InputError(
                "baseline",
                expected="finite numbers",
                got="NaN or infinity",
                remedy="use e.g. baseline=0.0",
            )
        if base.dim() and base.shape not in (x.shape, x.shape[1:], (1, *x.shape[1:])):
            raise InputError(
                "baseline",
                expected=f"a number or shape {tuple(x.shape[1:])} or {tuple(x.shape)}",
                got=f"shape {tuple(base.shape)}",
                remedy="give one baseline for all examples or one for each",
            )
        return base.expand_as(x)

    def _path(self, x: Tensor, target: Tensor) -> Path:
        base = self._baseline(x)
        nodes, weights = rule(self.quadrature, self.steps)
        return Path(base, x - base, nodes.to(x), weights.to(x), target)

    def _value(self, x: Tensor, target: Tensor) -> Tensor:
        if self._limit is not None:
            gradient = self._exact(x, target).value()
        else:
            gradient = mean_gradient(self.classifier, self._path(x, target))
        return (x - self._baseline(x)) * gradient if self.multiply_by_inputs else gradient

    def _linearize(self, x: Tensor, target: Tensor) -> Linearization:
        reservations = no_reservations
        if self._limit is not None:
            exact = self._exact(x, target)
            gradient, hessian = exact.linearized()
            reservations = exact.reservations
        else:
            path = self._path(x, target)
            gradient, hessian = mean_gradient_and_hessian(self.classifier, path)
        if not self.multiply_by_inputs:
            return Linearization(gradient, hessian, target, reservations)
        away = x - self._baseline(x)
        jacobian = ScaledGradientJacobian(gradient, away, hessian)
        return Linearization(away * gradient, jacobian, target, reservations)
