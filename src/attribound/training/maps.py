"""Attribution maps that can be differentiated again, and how alike two of them are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from attribound.attributions import IntegratedGradients
from attribound.attributions.quadrature import rule
from attribound.basics.errors import InputError
from attribound.basics.tensors import dot
from attribound.networks.fast_derivatives import FastDerivatives, differentiate
from attribound.networks.path import Path

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
    model: nn.Module,
    path: Path,
    score: Score = target_logit,
    *,
    times_displacement: bool = True,
    again: bool = True,
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
        mean = path.average(gradient, path.weights)
        return path.displacement * mean if times_displacement else mean


def explained(
    ig: IntegratedGradients, model: nn.Module, x: Tensor, y: Tensor, *, again: bool = True
) -> Tensor:
    """The integrated gradients of each label's logit; their graph unless ``again`` is False."""
    base = _baseline(ig, x)
    nodes, weights = rule(ig.quadrature, ig.steps)
    path = Path(base, x - base, nodes.to(x), weights.to(x), y)
    return along(model, path, times_displacement=ig.multiply_by_inputs, again=again)


def check_recipe(ig: IntegratedGradients) -> None:
    """Refuse integrated gradients from a baseline that is none."""
    if not torch.isfinite(torch.as_tensor(ig.baseline)).all():
        raise InputError(
            "ig.baseline", expected="finite numbers", got="NaN or infinity", remedy="use 0"
        )


def _baseline(ig: IntegratedGradients, x: Tensor) -> Tensor:
    base = torch.as_tensor(ig.baseline, dtype=x.dtype, device=x.device)
    if base.dim() and base.shape != x.shape[1:]:
        raise InputError(
            "ig.baseline",
            expected=f"a number or shape {tuple(x.shape[1:])}, the same for all examples",
            got=f"shape {tuple(base.shape)}",
            remedy="use 0",
        )
    return base.expand_as(x)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine between each example of ``a`` and of ``b``; 0 where one is zero, never NaN."""
    return dot(_direction(a), _direction(b))


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """The correlation of the entries of each example; 0 where one is constant, never NaN."""
    return cosine(_centred(a), _centred(b))


def _centred(a: Tensor) -> Tensor:
    flat = a.flatten(1)
    return flat - flat.mean(1, keepdim=True)


def _direction(a: Tensor) -> Tensor:
    flat = a.flatten(1)
    # A constant factor, by which directions do not change: without it small maps underflow.
    peak = flat.detach().abs().amax(1, keepdim=True)
    scaled = flat / torch.where(peak > 0, peak, torch.ones_like(peak))
    square = (scaled**2).sum(1, keepdim=True)
    # A norm has no derivative at zero, so that a zero map must not meet one.
    return scaled * torch.where(square > 0, square, torch.ones_like(square)).rsqrt()
