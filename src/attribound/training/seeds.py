"""Seeds of everything random in a training, each from the one seed of the run."""

from __future__ import annotations

import hashlib

import torch


def derived(seed: int, purpose: str, *numbers: int) -> int:
    """A seed below 2^63 that depends on all arguments and nothing else.

    A step's draws come from its number, not from the draws before it, so that a
    training can be taken up at any step without a generator's state.

    >>> derived(0, "order", 1) == derived(0, "order", 1) != derived(0, "order", 2)
    True
    """
    text = f"{seed}:{purpose}:{','.join(map(str, numbers))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(seed: int, purpose: str, *numbers: int) -> torch.Generator:
    """A generator on the CPU, seeded with :func:`derived`."""
    return torch.Generator().manual_seed(derived(seed, purpose, *numbers))
