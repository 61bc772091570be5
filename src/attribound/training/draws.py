"""Random shifts and reflections of images."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from attribound.basics.errors import InputError

_SHIFT = 4


def crop_flip(x: Tensor, draws: Tensor) -> Tensor:
    """Images ``(batch, channels, height, width)``, each shifted and perhaps mirrored.

    What comes in from outside is zero. ``draws`` are of :func:`crop_flip_draws`.
    """
    if x.dim() != 4:
        raise InputError(
            "augmentation",
            expected="images (batch, channels, height, width) to crop and flip",
            got=f"inputs of shape {tuple(x.shape)}",
            remedy='use augmentation = "none"',
        )
    batch, _, height, width = x.shape
    down, right, mirrored = draws[:, :, None].unbind(1)
    rows = down + torch.arange(height)
    columns = right + torch.arange(width)
    columns = torch.where(mirrored.bool(), columns.flip(1), columns)
    padded = pad(x, (_SHIFT,) * 4).permute(0, 2, 3, 1)  # channels last: one index per pixel
    image = torch.arange(batch)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def crop_flip_draws(batch: int, generator: torch.Generator) -> Tensor:
    """Shift down and right from 0 to 8, where 4 is none, and whether to mirror, ``(batch, 3)``."""
    corner = torch.randint(0, 2 * _SHIFT + 1, (batch, 2), generator=generator)
    return torch.cat([corner, torch.randint(0, 2, (batch, 1), generator=generator)], 1)
