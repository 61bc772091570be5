"""Interval propagation through a network and back, as GradCert does: what to compare with."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.region import Region


def interval_bound(network: Rectified, x: Tensor, target: int, region: Region) -> float:
    """How far the gradient at ``x (1, d)`` moves by intervals, the first layer by its norm."""
    low, high = _first(network, x, region)
    masks: list[tuple[Tensor, Tensor]] = []
    for number, slope in enumerate(network.slopes):
        masks.append(tuple(torch.where(end > 0, 1.0, slope).to(end) for end in (low, high)))
        low, high = (torch.where(end > 0, end, slope * end) for end in (low, high))
        if number + 1 < len(network.slopes):
            stage = network.stages[number + 1]
            middle, half = stage.value((low + high) / 2), stage.absolute().linear((high - low) / 2)
            low, high = middle - half, middle + half
    u = torch.zeros(1, network.stages[-1].sizes[-1], dtype=torch.float64)
    u[0, target] = 1.0
    least = most = u
    for stage, (off, on) in zip(reversed(network.stages[1:]), reversed(masks), strict=True):
        least, most = _back(stage, least, most)
        corners = torch.stack([least * off, least * on, most * off, most * on])
        least, most = corners.amin(0), corners.amax(0)
    least, most = _back(network.stages[0], least, most)
    gradient = network.gradients(x, target)
    return torch.maximum(most - gradient, gradient - least).norm().item()


def _first(network: Rectified, x: Tensor, region: Region) -> tuple[Tensor, Tensor]:
    stage = network.stages[0]
    z = stage.value(x)
    rows = stage.linear(torch.eye(x.shape[1], dtype=torch.float64)).T
    return z - region.support(-rows), z + region.support(rows)


def _back(stage: object, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    middle = stage.adjoint((least + most) / 2)  # type: ignore[attr-defined]
    half = stage.absolute().adjoint((most - least) / 2)  # type: ignore[attr-defined]
    return middle - half, middle + half
