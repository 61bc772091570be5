"""Certificates of the networks themselves, beside attacks on them and plain intervals.

Called by ``make bench-network``, with a table of its own. Kill it at any time: what is stored is
not computed again. ``python benchmarks/relu/certificates.py`` computes only these.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import attribound as ab
from attribound.attacks import KinkSteps, RandomPerturbation
from attribound.bounding.certified.network import unroll
from attribound.bounding.certified.rectified import Rectified
from attribound.bounding.certified.relu.region import regions
from claims.store import KEY, MEASURED_BY, RESULTS, Stored
from relu.certified_report import certificates_report
from relu.intervals import interval_bound
from relu.networks import CERTIFIED, NETWORKS, chosen, model_of, network_of, recognised

TABLE = "certificates.parquet"
_NUMBERS = ("epsilon", "norm", "root", "value", "degrees", "attained", "attack", "intervals")
SCHEMA = pa.schema(
    [
        *KEY.items(),
        ("attribution", pa.string()),
        ("ball", pa.string()),
        ("dtype", pa.string()),
        *((name, pa.float64()) for name in _NUMBERS),
        ("stay", pa.float64()),  # of the TOP largest scores, proved; null: no memory for it
        ("left", pa.float64()),  # of these, under the attacks
        ("exact", pa.bool_()),
        ("neurons", pa.int64()),
        ("nodes", pa.int64()),
        ("status", pa.string()),
        ("seconds", pa.float64()),  # of one core
        ("megabytes", pa.float64()),  # the most that the process had so far
    ]
)
ATTRIBUTIONS = {
    "saliency": ab.Saliency(),
    "input_x_gradient": ab.InputXGradient(),
    "ig-10": ab.IntegratedGradients(steps=10, quadrature="midpoint", label="ig-10"),
}
OTHERS = ("input_x_gradient", "ig-10")
METHOD = ab.Certified(nodes=150)
ATTACKS = {"kinks": KinkSteps(64), "noise": RandomPerturbation(seed=733).repeat(16)}
TOP = 4
#: What stands in the row of an example that was refused: nothing is proved, nothing was attacked.
_REFUSED = {"root": math.inf, "value": math.inf, "degrees": 180.0, "nodes": 0}
_INF = float("inf")
#: Of MLPs, those that say most first.
BALLS = tuple(
    ab.LpBall(*each)
    for each in (
        *((0.05, 2.0), (0.1, 2.0), (0.01, _INF), (0.01, 2.0)),
        *((0.2, 2.0), (0.005, _INF), (0.05, _INF)),
    )
)
#: Of convolutional networks, in every round; all others are asked about in the first one.
SMALL = (ab.LpBall(0.01, 2.0), ab.LpBall(0.02, 2.0), ab.LpBall(0.005, _INF))
#: Of tiny CNNs, where their certificates say nothing any more.
LARGEST = (ab.LpBall(0.2, 2.0), ab.LpBall(0.05, _INF))
_MLPS = tuple(name for name, each in NETWORKS.items() if each.size == "mlp")
_CNNS = tuple(name for name, each in NETWORKS.items() if each.size == "cnn")


@dataclass(frozen=True)
class Cell:
    """One network, attribution and ball, in the dtype in which the network is evaluated."""

    network: str
    attribution: str
    ball: ab.LpBall
    dtype: str = "float32"

    @property
    def settings(self) -> str:
        """Everything that its rows depend on, beside the examples."""
        values = [ATTRIBUTIONS[self.attribution], self.ball, METHOD, ATTACKS]
        known = [MEASURED_BY, torch.__version__, recognised(self.network), self.dtype]
        return json.dumps([known, ab.to_spec(values, whole=True)], sort_keys=True)


def ranged(network: str, ball: ab.LpBall) -> ab.LpBall:
    """Images keep to their range."""
    return ball if network.startswith("credit") else replace(ball, low=0.0, high=1.0)


def plan(mlp: int, cnn: int) -> Iterator[tuple[Cell, int]]:
    """Cells and examples, so ordered that the first ones already make a report.

    Rounds of two examples of every deeper MLP and tiny CNN, four of every MLP and one of every
    large convolutional network; of these the other attributions and the larger balls in the first
    round alone, and of tiny ones the largest balls of the first example.
    """
    mlps, cnns, others = ([*_there(names)] for names in (_MLPS, _CNNS, tuple(CERTIFIED)))
    for number in range(max(-(-mlp // 4), cnn)):
        for name, kind in itertools.product(others, ATTRIBUTIONS):
            deeper = network_of(name).size == "deeper"
            for ball, place in itertools.product(BALLS, _round(number, 2, mlp)):
                if deeper or ball not in LARGEST or not place:
                    yield Cell(name, kind, ranged(name, ball)), place
        for kind, name, ball in itertools.product(ATTRIBUTIONS, mlps, BALLS):
            for place in _round(number, 4, mlp):
                yield Cell(name, kind, ranged(name, ball)), place
                if name.startswith("mlp") and kind == "saliency":
                    yield Cell(name, kind, ranged(name, ball), "float64"), place
        for place in _round(number, 1, cnn):
            every = tuple(dict.fromkeys(SMALL + BALLS))
            for name, ball in itertools.product(cnns, SMALL if number else every):
                yield Cell(name, "saliency", ranged(name, ball)), place
            for name, kind, ball in itertools.product(() if number else cnns, OTHERS, BALLS):
                yield Cell(name, kind, ranged(name, ball)), place


def _round(number: int, size: int, count: int) -> range:
    """The places of a round."""
    return range(size * number, min(size * (number + 1), count))


def _there(names: tuple[str, ...]) -> Iterator[str]:
    return (name for name in names if network_of(name).missing is None)


def measure(cell: Cell, place: int, seed: int = 0) -> pa.Table:
    """One row: a certificate, attacks and intervals of one test example."""
    dtype = getattr(torch, cell.dtype)
    data, model = chosen(cell.network, seed), model_of(cell.network)
    try:
        row = _measured(cell, data.x[2 * place : 2 * place + 1].to(dtype), model.to(dtype))
    finally:
        model.to(torch.float32)
    known = {"network": cell.network, "role": "test", "place": place, "settings": cell.settings}
    shown = {"attribution": cell.attribution, "ball": cell.ball.name, "dtype": cell.dtype}
    return pa.Table.from_pylist([{**known, **shown, "epsilon": cell.ball.epsilon, **row}], SCHEMA)


def _measured(cell: Cell, x: torch.Tensor, model: torch.nn.Module) -> dict[str, Any]:
    attribution = ATTRIBUTIONS[cell.attribution].of(model)
    start = time.process_time()
    try:
        bound = ab.bound(attribution, x, cell.ball, method=METHOD)
    except ab.MemoryLimitError as error:
        length = attribution(x).norm().item()
        why = str(error).partition(";")[0]
        return {"norm": length, "status": f"refused: {why}", "exact": False, **_REFUSED}
    seconds = time.process_time() - start
    assert bound.gap is not None
    attacked = [attack(attribution, x, cell.ball, bound.target) for attack in ATTACKS.values()]
    found = max(each.deviation.max().item() for each in attacked)
    network = unroll(model, tuple(x.shape[1:]))
    assert isinstance(network, Rectified)
    (region,) = regions(cell.ball, x)
    plain = None
    if cell.attribution == "saliency":
        flat = x.flatten(1).double()
        plain = interval_bound(network, flat, int(bound.target), region)
    moved = [attribution(x + each.delta, bound.target) for each in attacked]
    left = min(_left(attribution(x, bound.target), each) for each in moved)
    stay = None
    with suppress(ab.MemoryLimitError):  # lists of all points of a path take more than the map
        kept = ab.reasons(attribution, x, cell.ball, TOP, claim=METHOD, by="absolute", attack=False)
        stay = kept.kept.item()
    return {
        "stay": stay,
        "left": left,
        "norm": bound.attribution_norm.item(),
        "root": bound.gap.root.item(),
        "value": bound.euclidean.item(),
        "degrees": bound.degrees.item(),
        "attained": bound.gap.attained.item(),
        "attack": found,
        "intervals": plain,
        "exact": bool(bound.gap.exact),
        "neurons": int(bound.gap.neurons),
        "nodes": int(bound.gap.nodes),
        "status": str(bound.status[0]),
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _left(before: torch.Tensor, after: torch.Tensor) -> int:
    """How many of the largest scores are still among them."""
    first, now = (set(each.abs().flatten().topk(TOP).indices.tolist()) for each in (before, after))
    return len(first & now)


def stored(folder: Path = RESULTS) -> Stored:
    """The table in a folder."""
    return Stored(folder / TABLE, SCHEMA)


def told(table: Stored) -> str:
    """The report, with the cells that it lacks."""
    names = [*_MLPS, *_CNNS, *CERTIFIED]
    asked = itertools.product(names, ATTRIBUTIONS, BALLS)
    return certificates_report(table.rows, [(*key, b.name, b.epsilon) for *key, b in asked])


def run(folder: Path, mlp: int, cnn: int) -> None:
    """Compute what is missing, one row after the other."""
    table = stored(folder)
    there = table.keys()
    for cell, place in plan(mlp, cnn):
        if (cell.network, "test", place, cell.settings) not in there:
            table.add(measure(cell, place))
            what = f"{cell.network} {cell.attribution} {cell.ball} {cell.dtype} {place}"
            print(f"{time.process_time():7.0f} s  {what}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(RESULTS, 8, 4)
