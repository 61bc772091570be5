"""Corollary 2: what a Euclidean bound says of the cosine distance and the angle."""

from __future__ import annotations

import torch
from torch import Tensor

from attribound.basics.tensors import ratio


def cosine_and_degrees(deviation: Tensor, attribution_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Largest cosine distance and angle of a vector within ``deviation`` of one of given norm.

    Where the deviation reaches the norm, the ball of attributions holds the origin
    and nothing limits the angle: 2 and 180 degrees. Never NaN, never clamped to 90. Rounded
    outwards, so that what holds for the deviation holds for these.
    """
    outwards = 1 + 8 * torch.finfo(deviation.dtype).eps
    sine = ratio(deviation, attribution_norm) * outwards
    bounded = (deviation < attribution_norm) & (sine < 1)
    sine = torch.where(bounded, sine, torch.zeros_like(sine))
    # 1 - sqrt(1 - s^2) without cancellation
    cosine = outwards * sine**2 / (1 + torch.sqrt(1 - sine**2))
    degrees = outwards * torch.rad2deg(torch.asin(sine))
    return (
        torch.where(bounded, cosine, torch.full_like(cosine, 2.0)),
        torch.where(bounded, degrees, torch.full_like(degrees, 180.0)),
    )
