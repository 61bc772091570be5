"""Exact integrated gradients of ReLU networks: regions, cost, and what the claims are worth.

``make bench-exact``; ``--cnn`` adds one image of SmallCNN (minutes). Errors are those of sums over
nodes against the integral itself; bounds and attacks are of exact integrated gradients of the
network as it is run, without a smooth copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

import attribound as ab
from attribound.attacks import AttributionAscent, BestOf, KinkSteps
from attribound.attributions.exact import ExactPaths
from attribound.attributions.exact.integral import integrate
from attribound.basics.tables import render
from attribound.bounding.certified.exact_path import certify_exact
from relu.networks import NETWORKS, chosen, model_of

MLPS = (
    "credit-german-nat",
    "credit-german-at",
    "credit-taiwan-nat",
    "credit-taiwan-at",
    "mlp-nat",
    "mlp-at",
)
BALLS = tuple(ab.L2Ball(radius) for radius in (0.01, 0.05, 0.1, 0.2))
NODES = (5, 20, 50)
EXAMPLES = 6
SEED = 0
TOP = 4
#: Ascents from both linearised optima and random points, through two copies, and across kinks.
ATTACK = BestOf(
    AttributionAscent(), AttributionAscent(steps=10).through(50.0, 200.0), KinkSteps(kinks=64)
)
MEAN_VALUE = ab.MeanValue(shells=2, rounds=1)

Found = TypeVar("Found")


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """What it gives, and its CPU-seconds."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def flat_norm(values: Tensor) -> Tensor:
    """Of each example."""
    return values.flatten(1).norm(dim=1)


def regions(name: str, count: int, limit: str = "exact") -> list[object]:
    """A row about the integral itself."""
    x = chosen(name, SEED).x[:count]
    ig = ab.IntegratedGradients(model_of(name), quadrature=limit)
    labels = ig.targets(x)
    paths = ExactPaths.of(ig.classifier, x, ig._baseline(x), labels)
    lines, many = paths.straight, paths._crossings
    at_x, whole = timed(
        lambda: integrate(paths.network, lines, paths.target, crossings=many, jumps=True)
    )
    exact = (lines.away * at_x.mean).view_as(x)
    value = exact.to(x)
    rise = paths.network.logits(lines.base + lines.away) - paths.network.logits(lines.base)
    rise = rise.gather(1, labels.unsqueeze(1))
    gap = (exact.flatten(1).sum(1, keepdim=True) - rise).abs().max().item()
    errors = []
    for rule in ("riemann_right", "midpoint"):
        for steps in NODES:
            rough = ab.IntegratedGradients(model_of(name), steps, quadrature=rule)(x, labels)
            errors.append(f"{(flat_norm(rough - value) / flat_norm(value)).median():.1%}")
    cells = at_x.cells
    return [
        name,
        paths.network.neurons,
        f"{int(cells.median())} ({int(cells.max())})",
        f"{whole / count:.2g}",
        f"{gap:.0e}",
        " / ".join(errors[:3]),
        " / ".join(errors[3:]),
    ]


def stays(before: Tensor, after: Tensor) -> Tensor:
    """How many of the top features of each map stay among them."""
    top, now = (flat.flatten(1).abs().topk(TOP).indices for flat in (before, after))
    return (top.unsqueeze(2) == now.unsqueeze(1)).any(2).sum(1).double()


def claims(name: str, ball: ab.Ball, count: int) -> list[object]:
    """A row about bounds and attacks in one ball."""
    x = chosen(name, SEED).x[:count]
    ig = ab.IntegratedGradients(model_of(name), quadrature="exact")
    labels = ig.targets(x)
    found = ATTACK(ig, x, ball, labels)
    made = ab.bounds(ig, x, ball, labels, claims=["first_order", MEAN_VALUE])
    proved, seconds = timed(lambda: certify_exact(ig, x, ball, labels))
    clean = ig(x, labels)
    kept = torch.stack([stays(clean, ig(x + trial.delta, labels)) for trial in found.trials]).amin(
        0
    )
    ours = sum(part.top_that_stay(TOP) for part in proved.parts) / count
    cells: list[object] = [name, f"{ball.epsilon:g}"]
    for value in (made["first_order"].euclidean, made["mean_value"].euclidean, proved.value):
        ratio = value / found.deviation
        over = int((ratio < 1).sum())
        cells.append(f"{ratio.median():.2f} ({ratio.max():.2f}), {over}/{count}")
    useful = (proved.value < flat_norm(clean) / 2).double().mean()
    return [*cells, f"{useful:.0%}", f"{ours:.1f} / {kept.mean():.1f}", f"{seconds / count:.2g}"]


def table_of_regions(names: Sequence[str], count: int, limit: str = "exact") -> str:
    """Paths through some networks."""
    title = (
        f"The integral from zero to the input, {count} test examples: parts of the path (median, "
        "most),\nCPU-seconds an example of value and Jacobian, completeness, and the error "
        f"of sums over {' / '.join(map(str, NODES))} nodes"
    )
    heads = ["network", "neurons", "regions", "CPU-s", "gap", "right Riemann", "midpoint"]
    return render(title, heads, [regions(name, count, limit) for name in names])


def table_of_claims(names: Sequence[str], count: int) -> str:
    """Bounds and attacks on some networks."""
    title = (
        "Bound / strongest attack, median (largest), and how many attacks exceeded it; certified "
        f"below half the map\n(30 degrees); of the top {TOP} features proved to stay / left by "
        "attacks; CPU-seconds of the certificate an example"
    )
    heads = ["network", "l2", "first order", "mean value", "certified", "useful", "stay", "CPU-s"]
    return render(title, heads, [claims(name, ball, count) for name in names for ball in BALLS])


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="of each network")
    parser.add_argument("--cnn", action="store_true", help="one image of SmallCNN, too")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.examples:
        there = [name for name in MLPS if NETWORKS[name].missing is None]
        print(table_of_regions(there, asked.examples), flush=True)
        for kind in ("credit", "mlp"):
            names = [name for name in there if name.startswith(kind)]
            print(f"\n{table_of_claims(names, asked.examples)}", flush=True)
    if asked.cnn:
        print(f"\n{table_of_regions(['cnn-nat'], 1, 'exact:100000')}")


if __name__ == "__main__":
    main()
