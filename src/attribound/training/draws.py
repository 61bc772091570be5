"""What is random in a training: the order of examples, shifts and reflections of images.

Every draw comes from the seed of the run and the number of its step, not from the draws before
it, so that a training can be taken up at any step without a generator's state.
"""

from __future__ import annotations

import functools
import hashlib

import torch
from torch import Tensor
from torch.nn.functional import pad

from attribound.basics.errors import InputError

_SHIFT = 4


def derived(seed: int, purpose: str, *numbers: int) -> int:
    """A seed below 2^63 that depends on all arguments and nothing else.

    >>> derived(0, "order", 1) == derived(0, "order", 1) != derived(0, "order", 2)
    True
    """
    text = f"{seed}:{purpose}:{','.join(map(str, numbers))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(seed: int, purpose: str, *numbers: int) -> torch.Generator:
    """A generator on the CPU, seeded with :func:`derived`."""
    return torch.Generator().manual_seed(derived(seed, purpose, *numbers))


def batch_count(examples: int, batch: int, devices: int) -> int:
    """How many batches an epoch has; the last is left out if it has no example for a device."""
    whole, rest = divmod(examples, batch)
    return whole + (rest >= devices)


def batch_rows(examples: int, batch: int, seed: int, step: int, per_epoch: int) -> Tensor:
    """The examples of a step: every epoch has an order of its own, from the seed alone."""
    epoch, number = divmod(step, per_epoch)
    return _order(examples, seed, epoch)[number * batch : (number + 1) * batch]


@functools.lru_cache(maxsize=2)
def _order(examples: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(examples, generator=generator(seed, "order", epoch))


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


def crop_flip_draws(batch: int, seed: int, step: int) -> Tensor:
    """Shift down and right from 0 to 8, where 4 is none, and whether to mirror, ``(batch, 3)``."""
    source = generator(seed, "augmentation", step)
    corner = torch.randint(0, 2 * _SHIFT + 1, (batch, 2), generator=source)
    return torch.cat([corner, torch.randint(0, 2, (batch, 1), generator=source)], 1)
