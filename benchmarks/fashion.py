"""The Fashion-MNIST networks that tests and benchmarks measure on.

``python benchmarks/fashion.py`` trains them again (minutes on two cores) and
writes ``benchmarks/checkpoints/fashion-*.safetensors``, skipping those there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from attribound.data import read_idx
from attribound.models import SmallCNN

FASHION = Path("/usr/share/datasets/fashion-mnist")
CHECKPOINTS = Path(__file__).parent / "checkpoints"
NETWORKS = {"nat": (2, 0), "at": (2, 7)}  # name: epochs, inner PGD steps
EPSILON = 0.1


def images(split: str) -> tuple[Tensor, Tensor]:
    """Images ``(n, 1, 28, 28)`` in [0, 1] and labels of ``train`` or ``t10k``."""
    pixels = read_idx(FASHION / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(FASHION / f"{split}-labels-idx1-ubyte.gz")
    return pixels.unsqueeze(1).float() / 255, labels.long()


def network(name: str) -> SmallCNN:
    """A stored network, in eval mode."""
    model = SmallCNN()
    model.load_state_dict(load_file(CHECKPOINTS / f"fashion-{name}.safetensors"))
    return model.eval()


def _attacked(model: SmallCNN, x: Tensor, y: Tensor, steps: int) -> Tensor:
    """PGD on cross-entropy, l-infinity ``EPSILON``, random start, pixels kept in range."""
    if not steps:
        return x
    model.eval().requires_grad_(False)
    delta = torch.empty_like(x).uniform_(-EPSILON, EPSILON)
    for _ in range(steps):
        point = (x + delta).clamp(0, 1).requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(model(point), y, reduction="sum"), point)
        delta = (point.detach() + 2.5 * EPSILON / steps * gradient.sign() - x).clamp(
            -EPSILON, EPSILON
        )
    model.train().requires_grad_(True)
    return (x + delta).clamp(0, 1)


def accuracy(model: SmallCNN, x: Tensor, y: Tensor) -> float:
    """Share of ``x`` classified as ``y``."""
    with torch.no_grad():
        hits = [(model(a).argmax(1) == b) for a, b in zip(x.split(500), y.split(500), strict=True)]
    return torch.cat(hits).float().mean().item()


def train(name: str) -> None:
    """Train one network with Adam and a one-cycle schedule, report accuracies, store it."""
    epochs, steps = NETWORKS[name]
    torch.manual_seed(0)
    x, y = images("train")
    model = SmallCNN().train()
    optimiser = torch.optim.Adam(model.parameters())
    batches = len(x) // 128
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=epochs * batches)
    start = time.perf_counter()
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for i in range(batches):
            rows = order[128 * i : 128 * (i + 1)]
            point = _attacked(model, x[rows], y[rows], steps)
            loss = cross_entropy(model(point), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            if i % 50 == 0:
                print(
                    f"{name} epoch {epoch} batch {i}/{batches} loss {loss.item():.3f}", flush=True
                )
    model.eval()
    test_x, test_y = images("t10k")
    attacked = _attacked(model, test_x[:1000], test_y[:1000], 20)
    model.eval()
    clean, robust = accuracy(model, test_x, test_y), accuracy(model, attacked, test_y[:1000])
    seconds = time.perf_counter() - start
    print(f"{name}: {clean:.4f} clean, {robust:.3f} under PGD-20 of 1000, {seconds:.0f} s")
    save_file(model.state_dict(), CHECKPOINTS / f"fashion-{name}.safetensors")


if __name__ == "__main__":
    for each in sys.argv[1:] or NETWORKS:
        if not (CHECKPOINTS / f"fashion-{each}.safetensors").exists():
            train(each)
