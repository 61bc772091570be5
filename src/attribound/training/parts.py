"""The examples a training sees: what is held out, batches in their order, and a fingerprint."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from attribound.basics.errors import InputError
from attribound.data import Examples, Split, load, split
from attribound.training.config import Data
from attribound.training.seeds import generator

#: Examples whose values enter the fingerprint; the labels of all do.
_FINGERPRINTED = 4096


@dataclass(frozen=True, eq=False)
class Parts:
    """Examples to train on, and those held out to measure progress on."""

    train: Examples
    held_out: Examples

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all labels, and of the values of up to 4,096 examples spread evenly."""
        digest = hashlib.sha256()
        for part in (self.train, self.held_out):
            digest.update(f"{len(part)} {part.shape} {part.classes}".encode())
            digest.update(part.labels.numpy().tobytes())
            count = min(len(part), _FINGERPRINTED)
            rows = torch.arange(count) * len(part) // max(count, 1)
            for first in range(0, count, 256):
                digest.update(part.read(rows[first : first + 256]).numpy().tobytes())
        return digest.hexdigest()


def load_parts(data: Data) -> Parts:
    """The data of a config, divided with its own seed.

    Raises:
        InputError: there is no such data, or there are fewer examples than asked for.
    """
    part: Split | None = "train" if data.part == "train" else None
    whole = load(data.name, part, root=data.root, size=data.size)
    limit = len(whole) if data.limit is None else data.limit
    if data.held_out >= limit or limit > len(whole):
        raise InputError(
            "data",
            expected=f"limit up to {len(whole)}, the examples there are, and held_out below it",
            got=f"limit={data.limit}, held_out={data.held_out}",
            remedy="lower held_out, or correct limit",
        )
    held_out, train = split(whole, (data.held_out, limit - data.held_out), data.seed)
    return Parts(train, held_out)


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
