"""A network for the digits that is there at once: random weights, always the same."""

from __future__ import annotations

import os
import signal

import torch
from torch import Tensor, nn

from attribound.auditing.sources import chosen
from attribound.data import load


def build(seed: int = 0) -> nn.Module:
    """64 inputs, ten classes, smooth."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Softplus(), nn.Linear(12, 10))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network


def varied() -> nn.Module:
    """One that predicts several classes."""
    return build(seed=1)


class NaNFor(nn.Module):
    """The same, but one input has NaN logits."""

    def __init__(self, bad: Tensor) -> None:
        super().__init__()
        self.network = build()
        self.register_buffer("bad", bad)

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.bad, Tensor)
        squares = (x - self.bad).flatten(1).square().sum(1, keepdim=True)
        return self.network(x) + 0 * (squares - 1e-3).log()  # of a negative number only there


def nan_for_some() -> nn.Module:
    """NaN for one of the first six test images that an audit of the digits with seed 0 takes."""
    examples = load("digits")
    own = chosen(len(examples), 6, 0)
    return NaNFor(examples.read(own)[2])


def kinked() -> nn.Module:
    """A small network with ReLU, which has no bounds of its own."""
    torch.manual_seed(0)
    layers = nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10)
    return nn.Sequential(*layers).eval()


def deadly() -> nn.Module:
    """A model that kills the process that loads it."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
