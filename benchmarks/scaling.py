"""``make bench-scaling``: what questions cost against features, steps, batch and depth.

First-order bounds in the ball (xi, Theorem 1) and in the cube (a bracket), a mean-value bound and
an attack, each in a new process, forked from one that has imported all: products an example,
CPU-seconds an example on one thread, peak memory (``ru_maxrss``, Python and torch included). Then
a ResNet-50 on an image of 224 x 224. The rows go to ``scaling.csv``; ``--plot`` draws them
without measuring.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import attribound as ab
from attribound.basics.tables import render

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # the reproduction is in no package that could be installed

from reproduction.paper.networks import KERAS_RESNET50  # noqa: E402

ROWS = HERE / "scaling.csv"
PLOT = HERE.parent / "docs" / "images" / "scaling.png"
DATA = Path(os.environ.get("ATTRIBOUND_DATA", HERE.parents[1] / "shared" / "data"))
CHECKPOINT = DATA / "checkpoints" / "imagenet-resnet50-standard.safetensors"
WIDTH = 8
GIGABYTES = 2  # that a first-order bound of a ResNet-50 may take at most
BETA = 20.0  # of the smooth copy of the ResNet-50


@dataclass(frozen=True)
class Cell:
    """One question about one network."""

    question: str = "xi"
    network: str = "convolutional"
    channels: int = 3
    side: int = 32
    steps: int = 5
    batch: int = 1
    depth: int = 2

    @property
    def features(self) -> int:
        """Of an input."""
        return self.channels * self.side**2


COLUMNS = [*asdict(Cell()), "features", "products", "seconds", "megabytes", "before"]
Answer = Callable[[ab.Attribution, Tensor], float]


def _products(ball: ab.Ball, method: ab.Method) -> Answer:
    def answer(attribution: ab.Attribution, x: Tensor) -> float:
        return ab.bound(attribution, x, ball, method=method).products.double().mean().item()

    return answer


def _gradients(attribution: ab.Attribution, x: Tensor) -> float:
    attack = ab.attacks.AttributionAscent(steps=8, random_starts=1)
    return attack(attribution, x, ab.L2Ball(0.1)).evaluations


#: Effort as in the protocol "quick"; each answers with products, an attack with gradients.
QUESTIONS: dict[str, Answer] = {
    "xi": _products(ab.L2Ball(0.1), ab.FirstOrder()),
    "cube": _products(ab.LinfBall(0.01), ab.FirstOrder()),
    "mean-value": _products(ab.L2Ball(0.1), ab.MeanValue(shells=2, rounds=1)),
    "attack": _gradients,
}
AXES: dict[str, list[Cell]] = {
    "features": [
        Cell(channels=channels, side=side)
        for channels, side in [(1, 8), (1, 28), (3, 32), (3, 128), (3, 224)]
    ],
    "steps": [Cell(steps=steps) for steps in (5, 20, 50)],
    "batch": [Cell(batch=batch) for batch in (1, 4, 16)],
    "depth": [Cell(depth=depth) for depth in (2, 8, 16)],
}
LARGE = Cell(network="resnet50", side=224, depth=50)


def convolutional(cell: Cell) -> nn.Module:
    """``depth`` smooth convolutions of 8 channels at half the side, and a linear layer."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(cell.channels, WIDTH, 3, padding=1), nn.Softplus(10), nn.AvgPool2d(2)]
    for _ in range(cell.depth - 1):
        layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Softplus(10)]
    head = [nn.AvgPool2d(cell.side // 4), nn.Flatten(), nn.Linear(4 * WIDTH, 10)]
    return nn.Sequential(*layers, *head).eval()


def network_of(cell: Cell) -> nn.Module:
    """The network of a cell; a ResNet-50 with trained weights as its smooth copy."""
    if cell.network == "convolutional":
        return convolutional(cell)
    return ab.smooth(ab.models.load(CHECKPOINT, KERAS_RESNET50, dtype=torch.float32), beta=BETA)


def inputs_of(cell: Cell) -> Tensor:
    """Random pixels; an image of ImageNet for the ResNet-50."""
    if cell.network == "convolutional":
        shape = (cell.batch, cell.channels, cell.side, cell.side)
        return torch.rand(*shape, generator=torch.Generator().manual_seed(0))
    examples = ab.data.load("imagenet", "test", root=DATA)
    return examples.read(torch.arange(cell.batch))


def measure(cell: Cell) -> dict[str, Any]:
    """The row of a cell, in this process."""
    torch.set_num_threads(1)
    network = network_of(cell)
    x = inputs_of(cell)
    attribution = ab.IntegratedGradients(network, steps=cell.steps)
    before = megabytes()
    start = time.process_time()
    products = QUESTIONS[cell.question](attribution, x)
    seconds = time.process_time() - start
    return {
        **asdict(cell),
        "features": cell.features,
        "products": products,
        "seconds": seconds / cell.batch,
        "megabytes": megabytes(),
        "before": before,
    }


def megabytes() -> float:
    """The most memory this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def elsewhere(cell: Cell) -> dict[str, Any]:
    """The row of a cell, from a new process."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(measure, (cell,))


def warm() -> None:
    """Import what a first bound imports: that is no cost of the cells."""
    torch.set_num_threads(1)
    small = Cell(channels=1, side=8)
    for ask in QUESTIONS.values():
        ask(ab.IntegratedGradients(convolutional(small)), torch.rand(1, 1, 8, 8))


def cells(parts: list[str]) -> Iterator[Cell]:
    """Every cell of these parts once."""
    along = dict.fromkeys(cell for axis in parts if axis in AXES for cell in AXES[axis])
    yield from (replace(cell, question=name) for cell in along for name in QUESTIONS)
    if LARGE.network in parts and CHECKPOINT.is_file():
        yield LARGE


def stored() -> dict[Cell, dict[str, Any]]:
    """The rows of the last measurement, by their cells."""
    with ROWS.open(newline="") as file:
        return {_cell(row): row for row in csv.DictReader(file)}


def store(rows: dict[Cell, dict[str, Any]]) -> None:
    """Write all rows."""
    with ROWS.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def _cell(row: dict[str, Any]) -> Cell:
    return Cell(**{name: type(usual)(row[name]) for name, usual in asdict(Cell()).items()})


def show(rows: dict[Cell, dict[str, Any]]) -> None:
    """A table for each axis, with a dash where nothing was measured, and the large network."""
    for axis, along in AXES.items():
        heads = [axis]
        for name in QUESTIONS:
            heads += [f"{name}: {'gradients' if name == 'attack' else 'products'}", "s", "MB"]
        lines = []
        for cell in along:
            line: list[object] = [getattr(cell, axis)]
            for name in QUESTIONS:
                row = rows.get(replace(cell, question=name))
                line += (
                    ["-"] * 3
                    if row is None
                    else [
                        f"{float(row['products']):.0f}",
                        f"{float(row['seconds']):.3g}",
                        f"{float(row['megabytes']):.0f}",
                    ]
                )
            lines.append(line)
        print(render(f"Against {axis}: an example, CPU-seconds on one thread", heads, lines))
        counts = [float(rows[cell]["products"]) for cell in along if cell in rows]
        if counts:
            print(f"products of xi, largest / smallest: {max(counts) / min(counts):.2f}\n")
    if LARGE not in rows:
        print("ResNet-50, an image of 224 x 224: not measured")
    else:
        row = rows[LARGE]
        gigabytes = float(row["megabytes"]) / 1024
        print(
            f"ResNet-50, an image of 224 x 224, IG of {LARGE.steps} steps, first order in the l2 "
            f"ball: {float(row['products']):.0f} products, {float(row['seconds']):.0f} "
            f"CPU-seconds, peak {gigabytes:.2f} GB (goal: < {GIGABYTES})"
        )


def draw(rows: dict[Cell, dict[str, Any]]) -> None:
    """CPU-seconds and peak memory against every axis."""
    import matplotlib as mpl  # noqa: PLC0415 - only for the plot

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(2, len(AXES), figsize=(11, 5), sharex="col", sharey="row")
    for column, (axis, along) in enumerate(AXES.items()):
        for name in QUESTIONS:
            there = [cell for cell in along if replace(cell, question=name) in rows]
            found = [rows[replace(cell, question=name)] for cell in there]
            places = [getattr(cell, axis) for cell in there]
            for place, key in zip(axes[:, column], ("seconds", "megabytes"), strict=True):
                place.plot(places, [float(row[key]) for row in found], marker="o", ms=3, label=name)
                place.set_xscale("log")
                place.set_yscale("log")
                place.grid(alpha=0.3)
        every = [getattr(cell, axis) for cell in along]
        axes[1, column].set_xticks(every, [str(place) for place in every], rotation=30)
        axes[1, column].set_xticks([], minor=True)
        axes[1, column].set_xlabel(axis)
    axes[0, 0].set_ylabel("CPU-seconds an example")
    axes[1, 0].set_ylabel("peak memory, MB")
    gauge = [300, 500, 1000]
    axes[1, 0].set_yticks(gauge, [str(size) for size in gauge])
    axes[1, 0].set_yticks([], minor=True)
    axes[0, 0].legend(fontsize=8, loc="upper left")
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)


def main() -> None:
    """Measure some parts or all of them; or only draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = [*AXES, LARGE.network]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="others are kept")
    parser.add_argument("--plot", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    rows = stored() if ROWS.is_file() else {}
    if not asked.plot:
        warm()
        for cell in cells(asked.only):
            rows[cell] = elsewhere(cell)
            print(rows[cell], file=sys.stderr, flush=True)
            store(rows)
    show(rows)
    draw(rows)


if __name__ == "__main__":
    main()
