"""The exact integrals of a batch: from tensors as they come to mean gradients, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.attributions.exact.cells import StraightPaths, estimate
from attribound.attributions.exact.integral import Integral, integrate
from attribound.attributions.exact.jumping import standing
from attribound.attributions.exact.limits import check_crossings, check_memory
from attribound.attributions.exact.piecewise import PiecewiseLinear, piecewise
from attribound.networks.classifier import Classifier
from attribound.networks.plain import refuse_another
from attribound.operators import LinearOperator
from attribound.results import Status

_FEW = 2048  # neurons: then each may cross once and all is still small


@dataclass(frozen=True, eq=False)
class ExactPaths:
    """The paths of a batch through a network that is linear between its kinks.

    All is computed in float64 on the CPU, whatever ``x`` is, and rounded to its dtype.
    """

    network: PiecewiseLinear
    x: Tensor
    straight: StraightPaths
    target: Tensor

    @classmethod
    def of(cls, classifier: Classifier, x: Tensor, base: Tensor, target: Tensor) -> ExactPaths:
        """The paths from ``base`` to ``x``; networks of another kind are refused by name."""
        start, end = (each.detach().flatten(1).to("cpu", torch.float64) for each in (base, x))
        network = piecewise(classifier.model, tuple(x.shape[1:]))
        return cls(network, x, StraightPaths(start, end - start), target.cpu())

    def check(self, classifier: Classifier, limit: int, *, jumps: bool) -> None:
        """Refuse a network that computes something else, and paths with too many crossings.

        ``jumps``: whether they are kept, for a Jacobian.
        """
        ends = self.straight.base + self.straight.away
        refuse_another(classifier, self.network.logits(ends), self.x)
        most = check_crossings(self.network, self.straight, limit)
        if jumps:
            check_memory(most, ends.shape[1], classifier.memory_limit)

    def value(self) -> Tensor:
        """The mean gradient, like ``x``."""
        return self._integral(jumps=False).mean.to(self.x).view_as(self.x)

    def linearized(self) -> tuple[Tensor, LinearOperator]:
        """The mean gradient, and its derivative with respect to the ends of the paths."""
        found = self._integral(jumps=True)
        return found.mean.to(self.x).view_as(self.x), found.hessian(self.x)

    def reservations(self) -> dict[Status, Tensor]:
        """Where the Jacobian is one of several, and where integrated gradients jump."""
        eps = torch.finfo(self.x.dtype).eps
        on_kink, jumps = standing(self.network, self.straight, self._crossings, eps)
        return {Status.ON_KINK: on_kink, Status.JUMPS: jumps}

    @property
    def _crossings(self) -> int:
        """About how many a path has; only in large networks is it worth counting."""
        neurons = self.network.neurons
        return neurons if neurons <= _FEW else int(estimate(self.network, self.straight).max())

    def _integral(self, *, jumps: bool) -> Integral:
        return integrate(
            self.network, self.straight, self.target, crossings=self._crossings, jumps=jumps
        )
