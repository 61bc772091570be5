"""Tiny subjects of audits: milliseconds, not seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import attribound as ab
from attribound.attacks import PGD, AttributionAscent
from attribound.auditing.batches import Batch
from attribound.auditing.settings import AuditSettings, read_settings
from attribound.auditing.subject import Subject

MEAN_VALUE = ab.MeanValue(
    shells=1, rounds=0, attack=AttributionAscent(steps=1, random_starts=0), restarts=0
)
SMALL: dict[str, Any] = {
    "model": "m",
    "data": "d",
    "attributions": (ab.Saliency(),),
    "balls": (ab.L2Ball(0.05), ab.L2Ball(0.1)),
    "claims": (ab.FirstOrder(), ab.Adjusted(), MEAN_VALUE),
    "attacks": {"ascent": AttributionAscent(steps=3, seed=317), "pgd": PGD().repeat(2)},
    "dtype": "float64",
}


def settings(**changes: Any) -> AuditSettings:
    return read_settings({**SMALL, **changes})


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


def plain(kinked: bool = False) -> nn.Sequential:
    """The same without NaN, of layers that can be certified."""
    return Network(kinked).layers


def batch(count: int = 4, bad: tuple[int, ...] = ()) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, 7, generator=generator, dtype=torch.float64)
    x[list(bad), 0] = -2.0
    return Batch(3, torch.arange(count) + 100, x, torch.arange(count) % 3)


def subject(model: nn.Module | None = None, **changes: Any) -> Subject:
    return Subject.of(settings(**changes), plain() if model is None else model)


@dataclass(frozen=True)
class Pooled(ab.AutogradAttribution):
    """Gradients summed over neighbours: a map of another shape than the input."""

    width: int = 3

    def map(self, x: Tensor, target: Tensor) -> Tensor:
        logits = self.classifier.model(x).gather(1, target[:, None]).sum()
        (slope,) = torch.autograd.grad(logits, x, create_graph=True)
        whole = slope.flatten(1)[:, : self.width * 2]
        return whole.reshape(len(x), self.width, 2).sum(2)


@dataclass(frozen=True, eq=False, repr=False)
class Frozen(ab.L2Ball):
    """An l2 ball whose first features stay as they are."""

    count: int = 2

    @property
    def name(self) -> str:
        return f"frozen {self.count}"

    def scaling(self, x: Tensor) -> Tensor:
        scale = torch.ones_like(x)
        scale.flatten(1)[:, : self.count] = 0
        return scale


@dataclass(frozen=True)
class Outside(ab.attacks.Attack):
    """An attack that leaves its ball where the first feature is above a half."""

    def __call__(self, attribution: Any, x: Tensor, ball: Any, target: Any = None) -> Any:
        delta = ball.sample_sphere(x, seed=0) * torch.where(x[:, :1] > 0.5, 2.0, 1.0)
        return ab.attacks.judge(attribution, x, delta, target)

    def seeded(self, seed: int) -> Outside:
        return self


def bound_of(row: dict[str, Any], claim: str) -> dict[str, Any]:
    (found,) = (record for record in row["bounds"] if record["claim"] == claim)
    return dict(found)


def attack_of(row: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (record for record in row["attacks"] if record["attack"] == name)
    return dict(found)
