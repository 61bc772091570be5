"""The Fashion-MNIST networks that tests and benchmarks measure on.

``python benchmarks/fashion.py [NAMES]`` trains them again (an hour on two cores for all)
and puts them into ``benchmarks/checkpoints/fashion.safetensors``, skipping those there. Killed,
it goes on from the last epoch that was finished.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attribound.data import read_idx
from attribound.models import MLP, SmallCNN

FASHION = Path("/usr/share/datasets/fashion-mnist")
CHECKPOINTS = Path(__file__).parent / "checkpoints"
WEIGHTS = CHECKPOINTS / "fashion.safetensors"  # of all: ``NAME/PARAMETER``
EPSILON = 0.1
BATCH = 128


@dataclass(frozen=True)
class Recipe:
    """How a network is made: its kind, softplus beta, epochs and inner PGD steps (0: none)."""

    kind: str
    beta: float
    epochs: int
    steps: int

    def build(self) -> nn.Module:
        """The network before training."""
        kinds: dict[str, Callable[..., nn.Module]] = {
            "SmallCNN": SmallCNN,
            "MLP": MLP,
            "DeeperMLP": partial(MLP, hidden=(100,) * 4),
            "TinyCNN": tiny_cnn,
        }
        return kinds[self.kind](activation=lambda: nn.Softplus(beta=self.beta))


def tiny_cnn(activation: Callable[[], nn.Module]) -> nn.Module:
    """Two convolutions of 6 and 12 channels, 4x4, each halving the image: 1,764 neurons."""
    halving = {"kernel_size": 4, "stride": 2, "padding": 1}
    convolutions = nn.Conv2d(1, 6, **halving), activation(), nn.Conv2d(6, 12, **halving)
    return nn.Sequential(*convolutions, activation(), nn.Flatten(), nn.Linear(12 * 7 * 7, 10))


RECIPES = {
    "nat": Recipe("SmallCNN", 20.0, 2, 0),
    "at": Recipe("SmallCNN", 20.0, 2, 7),
    "mlp-nat-b5": Recipe("MLP", 5.0, 6, 0),
    "mlp-at-b5": Recipe("MLP", 5.0, 6, 7),
    "mlp-nat-b20": Recipe("MLP", 20.0, 6, 0),
    "mlp-at-b20": Recipe("MLP", 20.0, 6, 7),
    "nat-b5": Recipe("SmallCNN", 5.0, 2, 0),
    "at-b5": Recipe("SmallCNN", 5.0, 2, 7),
    "mlp4-nat-b20": Recipe("DeeperMLP", 20.0, 6, 0),
    "mlp4-at-b20": Recipe("DeeperMLP", 20.0, 6, 7),
    "tiny-nat-b20": Recipe("TinyCNN", 20.0, 3, 0),
    "tiny-at-b20": Recipe("TinyCNN", 20.0, 3, 7),
}
NETWORKS = ("nat", "at")  # what the benchmarks of solver and attacks measure on


def images(split: str) -> tuple[Tensor, Tensor]:
    """Images ``(n, 1, 28, 28)`` in [0, 1] and labels of ``train`` or ``t10k``."""
    pixels = read_idx(FASHION / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(FASHION / f"{split}-labels-idx1-ubyte.gz")
    return pixels.unsqueeze(1).float() / 255, labels.long()


def weights(name: str, file: Path = WEIGHTS) -> dict[str, Tensor]:
    """The parameters of one network of those stored; empty if it is not there."""
    if not file.exists():
        return {}
    with safe_open(file, "pt") as stored:
        keys = [key for key in stored.keys() if key.startswith(f"{name}/")]  # noqa: SIM118
        return {key.removeprefix(f"{name}/"): stored.get_tensor(key) for key in keys}


def store(name: str, parameters: dict[str, Tensor], file: Path = WEIGHTS) -> None:
    """Put one network beside those stored."""
    others = load_file(file) if file.exists() else {}
    temporary = file.with_suffix(".writing")
    own = {f"{name}/{key}": value for key, value in parameters.items()}
    save_file({**others, **own}, temporary)
    temporary.replace(file)


def network(name: str) -> nn.Module:
    """A stored network, in eval mode."""
    model = RECIPES[name].build()
    model.load_state_dict(weights(name))
    return model.eval()


def _attacked(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> Tensor:
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


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of ``x`` classified as ``y``."""
    with torch.no_grad():
        hits = [(model(a).argmax(1) == b) for a, b in zip(x.split(500), y.split(500), strict=True)]
    return torch.cat(hits).float().mean().item()


def train(name: str, recipe: Recipe, data: tuple[Tensor, Tensor], folder: Path) -> nn.Module:
    """Train one network with Adam and a one-cycle schedule, and store it in ``folder``.

    After every epoch everything that the rest depends on is stored, too, random numbers
    included: going on after a kill gives the network that an undisturbed run gives.
    """
    x, y = data
    torch.manual_seed(0)
    model = recipe.build().train()
    optimiser = torch.optim.Adam(model.parameters())
    batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 2e-3, total_steps=recipe.epochs * batches
    )
    halfway = folder / f"fashion-{name}.partial"
    parts = {"model": model, "optimiser": optimiser, "schedule": schedule}
    done = _resume(halfway, recipe, parts)
    for epoch in range(done, recipe.epochs):
        order = torch.randperm(len(x))
        for i in range(batches):
            rows = order[BATCH * i : BATCH * (i + 1)]
            point = _attacked(model, x[rows], y[rows], recipe.steps)
            loss = cross_entropy(model(point), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            if i % 50 == 0:
                print(
                    f"{name} epoch {epoch} batch {i}/{batches} loss {loss.item():.3f}", flush=True
                )
        states = {key: part.state_dict() for key, part in parts.items()}
        made = {"recipe": asdict(recipe), "epoch": epoch + 1, "random": torch.get_rng_state()}
        temporary = halfway.with_suffix(".writing")
        torch.save({**made, **states}, temporary)
        temporary.replace(halfway)
    store(name, model.state_dict(), folder / WEIGHTS.name)
    halfway.unlink()
    return model.eval()


def _resume(halfway: Path, recipe: Recipe, parts: dict[str, nn.Module]) -> int:
    """Put stored states into ``parts``; the epochs done, 0 without a file of this recipe."""
    if not halfway.exists():
        return 0
    stored = torch.load(halfway)
    if stored["recipe"] != asdict(recipe):
        return 0
    for key, part in parts.items():
        part.load_state_dict(stored[key])
    torch.set_rng_state(stored["random"])
    return int(stored["epoch"])


def report(name: str, model: nn.Module) -> str:
    """Clean and robust accuracy, in one line."""
    x, y = images("t10k")
    torch.manual_seed(0)
    attacked = _attacked(model, x[:1000], y[:1000], 20)
    model.eval()
    clean, robust = accuracy(model, x, y), accuracy(model, attacked, y[:1000])
    return f"{name}: {clean:.4f} clean, {robust:.3f} under PGD-20 of 1000"


if __name__ == "__main__":
    for each in sys.argv[1:] or RECIPES:
        if not weights(each):
            start = time.perf_counter()
            trained = train(each, RECIPES[each], images("train"), CHECKPOINTS)
            print(f"{report(each, trained)}, {time.perf_counter() - start:.0f} s", flush=True)
