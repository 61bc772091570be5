"""Certificates of a batch of exact integrated gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from rich.progress import track
from torch import Tensor

from attribound.attributions import Attribution, InputXGradient, IntegratedGradients, Saliency
from attribound.attributions.exact import ExactPaths
from attribound.attributions.exact.piecewise import piecewise
from attribound.balls import Ball, enclosure
from attribound.basics.tensors import round_up
from attribound.bounding.certified.exact_path.certificate import (
    IntegrationPath,
    PathCertificate,
    certify_path,
)
from attribound.bounding.certified.exact_path.path_ball import PathBall
from attribound.bounding.certified.exact_path.pieces import check_memory

SOURCE = "exact path"
_ROUNDINGS = 32  # of the norm of a difference


@dataclass(frozen=True, eq=False)
class ProvedPaths:
    """Proved: |g(x + delta) - g(x)|_2 <= value for every delta in the ball, across kinks.

    Of the real function that the weights define, at x + delta as it is rounded in the dtype of x,
    and with maps rounded to it. A value range of the ball is not made use of.

    Attributes:
        value: per example, in the dtype of x, rounded up.
        parts: of each example intervals of single scores, and which of the top k stay.
    """

    value: Tensor
    parts: tuple[PathCertificate, ...]


def is_exact(attribution: Attribution) -> bool:
    """Whether it is the exact integral, with nothing of its own."""
    return (
        isinstance(attribution, IntegratedGradients)
        and type(attribution)._value is IntegratedGradients._value
        and attribution.crosses_kinks
    )


def without_offsets(attribution: Attribution, x: Tensor) -> Attribution | None:
    """Input times gradient (or the gradient) where that is what the exact integral is.

    If no neuron has an offset and the path begins at zero, the gradient is the same all along it;
    the integral jumps with every switch, which the certificate of one point takes as it is.
    """
    assert isinstance(attribution, IntegratedGradients)
    assert attribution.classifier is not None
    network = piecewise(attribution.classifier.model, tuple(x.shape[1:]))
    convex = all(0 <= slope <= 1 for slope in network.slopes)
    offsets = (
        each.magnitude(torch.zeros(1, each.sizes[0]).double()) for each in network.stages[:-1]
    )
    if not convex or attribution._baseline(x).any() or any(each.any() for each in offsets):
        return None
    kind = InputXGradient if attribution.multiply_by_inputs else Saliency
    return kind(attribution.classifier, label=attribution.label)


def certify_exact(
    attribution: Attribution,
    x: Tensor,
    ball: Ball,
    target: Tensor,
    memory_limit: int,
    progress: bool = False,
) -> ProvedPaths:
    """Bound how far exact integrated gradients move, example by example, rigorously."""
    assert isinstance(attribution, IntegratedGradients)
    attribution.check(x, smooth=True)
    base = attribution._baseline(x)
    paths = ExactPaths.of(attribution.classifier, x, base, target)
    check_memory(paths.network, memory_limit)
    around, eps = enclosure(ball, x), torch.finfo(x.dtype).eps
    found = []
    with torch.no_grad():
        for row in track(range(len(x)), "certifying", disable=not progress):
            start = paths.straight.base[row : row + 1]
            end = x[row : row + 1].detach().flatten(1).to("cpu", torch.float64)
            path = IntegrationPath(start, end, int(target[row]), attribution.multiply_by_inputs)
            size = PathBall.around(around, row, end.shape[1]).evaluated(end[0], eps / 2)
            found.append(certify_path(paths.network, path, size))
    values = torch.tensor([each.value for each in found], dtype=torch.float64)
    lengths = torch.tensor([each.map.norm().item() for each in found], dtype=torch.float64)
    # Both maps are rounded to the dtype of x, and so are their difference and its norm.
    values = values * (1 + _ROUNDINGS * eps) + 2 * eps * lengths
    return ProvedPaths(round_up(values, x), tuple(found))
