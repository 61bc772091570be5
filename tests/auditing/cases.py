"""Tiny subjects of audits: milliseconds, not seconds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attribound.auditing.measure import Batch, Subject
from attribound.auditing.settings import (
    AscentSettings,
    AuditSettings,
    BallSettings,
    MeanValueSettings,
    PGDSettings,
    SaliencySettings,
)

SMALL = {
    "model": "m",
    "data": "d",
    "attributions": (SaliencySettings(),),
    "balls": (BallSettings("l2", (0.05, 0.1)),),
    "attacks": {"ascent": AscentSettings(steps=3, seed=317), "pgd": PGDSettings(repeats=2)},
    "mean_value": MeanValueSettings(shells=1, rounds=0, ascent_steps=1, ascent_random_starts=0),
    "dtype": "float64",
}


def settings(**changes) -> AuditSettings:
    return AuditSettings(**{**SMALL, **changes})


class Network(nn.Module):
    """Softplus on seven features; NaN where the first one is below -1."""

    def __init__(self, kinked: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        middle = nn.ReLU() if kinked else nn.Softplus(5)
        self.layers = nn.Sequential(nn.Linear(7, 8), middle, nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits + 1e-3 * torch.log(x[:, :1] + 1)


def plain(kinked: bool = False) -> nn.Module:
    """The same without NaN, of layers that can be certified."""
    return Network(kinked).layers


def batch(count: int = 4, bad: tuple[int, ...] = ()) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, 7, generator=generator, dtype=torch.float64)
    x[list(bad), 0] = -2.0
    return Batch(3, torch.arange(count) + 100, x, torch.arange(count) % 3)


def subject(model: nn.Module | None = None, **changes) -> Subject:
    return Subject.of(settings(**changes), plain() if model is None else model)
