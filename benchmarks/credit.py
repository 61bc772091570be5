"""ReLU networks that decide on credit: German and Taiwanese customers.

``python benchmarks/credit.py`` trains them again (a minute) and writes
``benchmarks/checkpoints/credit.safetensors``. The data are UCI's, in ``../shared/data/credit`` or
the folder that ``ATTRIBOUND_DATA`` names; features are in standard deviations from the mean.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attribound import models
from fashion import store, weights

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
WEIGHTS = Path(__file__).parent / "checkpoints" / "credit.safetensors"
EPSILON = 0.1  # of adversarial training, l-infinity, in standard deviations
_BATCH = 64


@dataclass(frozen=True)
class Table:
    """A file of customers: what is predicted, the value that is class 1, and what is no feature."""

    label: str
    positive: str
    without: tuple[str, ...] = ()
    test: int = 200
    epochs: int = 8


TABLES = {
    "german": Table("creditability", "good"),
    "taiwan": Table("default-payment-next-month", "1", ("ID",), test=6000, epochs=4),
}


def shared(*parts: str) -> Path:
    """A file of the shared data, whether it is there or not."""
    return Path(os.environ.get("ATTRIBOUND_DATA") or BESIDE).joinpath(*parts)


def path_of(table: str) -> Path:
    """Where the customers are."""
    return shared("credit", f"{table}.csv")


@cache
def customers(table: str, split: str) -> tuple[Tensor, Tensor]:
    """Standardised features ``(n, features)`` and labels of ``train`` or ``test``.

    Categories become one column each; the mean and deviation are those of the training rows.
    """
    about = TABLES[table]
    with path_of(table).open(newline="") as file:
        rows = list(csv.DictReader(file))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    names = [name for name in rows[0] if name not in {about.label, *about.without}]
    columns = [column for name in names for column in _columns([row[name] for row in rows])]
    x = torch.tensor(columns, dtype=torch.float64).T[order]
    y = torch.tensor([int(row[about.label] == about.positive) for row in rows])[order]
    train = x[about.test :]
    x = ((x - train.mean(0)) / train.std(0).clamp_min(1e-6)).float()
    part = slice(None, about.test) if split == "test" else slice(about.test, None)
    return x[part], y[part]


def _columns(values: list[str]) -> list[list[float]]:
    """Numbers as they are, categories one by one."""
    try:
        return [[float(value) for value in values]]
    except ValueError:
        return [[float(value == each) for value in values] for each in sorted({*values})]


def config(table: str) -> models.Config:
    """Two hidden layers of ReLU."""
    features = customers(table, "test")[0].shape[1]
    return models.MLPConfig(
        features=features, hidden=(64, 64), classes=2, activation=models.Activation.relu()
    )


def network(name: str) -> nn.Module:
    """A stored network, e.g. ``german-at``, in eval mode."""
    model = models.build(config(name.partition("-")[0]))
    model.load_state_dict(weights(name, WEIGHTS))
    return model.eval()


def train(table: str, steps: int) -> nn.Module:
    """Adam on cross-entropy, at PGD points of so many steps (0: none)."""
    x, y = customers(table, "train")
    torch.manual_seed(0)
    model = models.build(config(table)).train()
    optimiser = torch.optim.Adam(model.parameters(), weight_decay=1e-4)
    for _ in range(TABLES[table].epochs):
        for rows in torch.randperm(len(x)).split(_BATCH):
            point = _attacked(model, x[rows], y[rows], steps)
            optimiser.zero_grad()
            cross_entropy(model(point), y[rows]).backward()
            optimiser.step()
    return model.eval()


def _attacked(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> Tensor:
    delta = torch.zeros_like(x)
    for _ in range(steps):
        point = (x + delta).requires_grad_()
        (slope,) = torch.autograd.grad(cross_entropy(model(point), y), point)
        delta = (delta + EPSILON / 2 * slope.sign()).clamp(-EPSILON, EPSILON)
    return x + delta


def main() -> None:
    """Train and store them all."""
    for table in TABLES:
        for name, steps in {"nat": 0, "at": 5}.items():
            model = train(table, steps)
            store(f"{table}-{name}", model.state_dict(), WEIGHTS)
            x, y = customers(table, "test")
            hits = (model(x).argmax(1) == y).float().mean().item()
            share = y.float().mean().item()
            print(f"{table}-{name}: {hits:.3f}, one class alone {max(share, 1 - share):.3f}")


if __name__ == "__main__":
    main()
