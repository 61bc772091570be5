"""How tensors lie in memory: images on a CPU with their channels last."""

from __future__ import annotations

import torch
from torch import Tensor


def laid_out(x: Tensor) -> Tensor:
    """``x`` detached and as convolutions like it: channels last for images on a CPU.

    Not by ``contiguous``: with one channel PyTorch finds both layouts alike and keeps its own.
    """
    x = x.detach()
    if x.dim() == 4 and x.shape[1] > 1 and x.is_contiguous(memory_format=torch.channels_last):
        return x if x.device.type == "cpu" else x.contiguous()
    x = x.contiguous()
    if x.dim() != 4 or x.device.type != "cpu":
        return x
    channels, height, width = x.shape[1:]
    if channels == 1:
        return x.as_strided(x.shape, (height * width, 1, width, 1))
    return x.contiguous(memory_format=torch.channels_last)


def room_like(shape: torch.Size, like: Tensor) -> Tensor:
    """Room of a shape, its numbers not set, for functions that read the shape alone."""
    last = len(shape) == 4 and like.device.type == "cpu"
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


def rowwise(many: Tensor, few: Tensor) -> Tensor:
    """``many`` rows seen as blocks of as many rows as ``few`` has, to be multiplied with them."""
    return many if len(many) == len(few) else many.view(-1, *few.shape)
