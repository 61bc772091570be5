"""Gradients with respect to inputs that can be differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from attribound.attributions.hessian import Path
from attribound.attributions.quadrature import rule
from attribound.basics.errors import InputError
from attribound.models.settings import is_finite
from attribound.networks.classifier import differentiate
from attribound.networks.fast_derivatives import FastDerivatives

#: From logits ``(batch, classes)`` and labels to one number an example.
Score = Callable[[Tensor, Tensor], Tensor]


def target_logit(logits: Tensor, target: Tensor) -> Tensor:
    """The logit of each label."""
    return logits.gather(1, target.unsqueeze(1)).squeeze(1)


def loss(logits: Tensor, target: Tensor) -> Tensor:
    """The cross-entropy of each example."""
    return cross_entropy(logits, target, reduction="none")


def smooth_logits(model: nn.Module, points: Tensor) -> Tensor:
    """The logits, by operations with (cheap) second derivatives."""
    # Fused attention has no second derivative; the plain one does.
    with FastDerivatives(), sdpa_kernel(SDPBackend.MATH):
        logits: Tensor = model(points.clone())  # a copy: the model may work in place
    return logits


def along(
    model: nn.Module, path: Path, score: Score = target_logit, *, again: bool = True
) -> Tensor:
    """The displacement times the mean gradient along each path: integrated gradients of ``score``.

    All nodes go through the model in one batch. Unless ``again`` is False, the result has a
    graph to the ends of the path and to those parameters that are not frozen.
    """
    with torch.enable_grad():
        points, target = path.points()
        if not points.requires_grad:
            points.requires_grad_()
        total = score(smooth_logits(model, points), target).sum()
        gradient = differentiate(total, points, create_graph=again)
        return path.displacement * path.average(gradient, path.weights)


@dataclass(frozen=True)
class IG:
    """Integrated gradients of the label's logit, as a setting of training methods.

    Attributes:
        steps: number of quadrature nodes; few are enough for training.
        baseline: the value of every feature at the start of the path.
        quadrature: ``riemann_right`` (the paper's), ``midpoint`` or ``gauss_legendre``.
    """

    steps: int = 5
    baseline: float = 0.0
    quadrature: str = "riemann_right"

    def __post_init__(self) -> None:
        """Refuse a rule that is none."""
        rule(self.quadrature, self.steps)
        if not is_finite(self.baseline):
            raise InputError(
                "baseline", expected="a finite number", got=repr(self.baseline), remedy="use 0"
            )

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, *, again: bool = True) -> Tensor:
        """The attribution of each example; its graph unless ``again`` is False."""
        base = torch.full_like(x, self.baseline)
        nodes, weights = rule(self.quadrature, self.steps)
        return along(model, Path(base, x - base, nodes.to(x), weights.to(x), y), again=again)
