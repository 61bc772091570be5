"""How many of the top 5 pixels provably stay: Fashion-MNIST, MLP and SmallCNN, claims and attacks.

``make bench-top5`` measures what ``benchmarks/results/top5.parquet`` has not yet, image by image,
and prints the table; killed, it goes on where it was. ``--set mlp=4`` for fewer images of the
MLPs, ``--only`` prints what is stored.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

import attribound as ab
from attribound.attacks.displace import By, first_of, sizes
from attribound.basics.tables import render
from attribound.bounding.guarantees import method_of
from attribound.bounding.method import Question
from attribound.bounding.reasons.deciding import by_norm, decide
from attribound.bounding.reasons.motions import motions
from claims.store import Stored
from fashion import images

STORE = Path(__file__).parent / "results" / "top5.parquet"
MLPS = ("fashion-mnist/at-mlp", "fashion-mnist/ce-mlp")
CNNS = ("fashion-mnist/at", "fashion-mnist/ce")
RADII = (0.05, 0.1)
K, SEED = 5, 0
BY: By = "absolute"
#: Images of each kind of network, and of certificates of SmallCNN, which take long.
COUNTS = {"mlp": 20, "cnn": 6, "certified-cnn": 1}
CLAIMS = ("first_order", "mean_value", "certified")
#: Speaks of the averaged map, whose list is another one: no attack on the plain map is held
#: against it.
AVERAGED = "smoothed"
ATTACK = "attack"

Row = dict[str, Any]
SCHEMA = pa.schema(
    {
        "network": pa.string(),
        "claim": pa.string(),
        "epsilon": pa.float64(),
        "image": pa.int64(),
        "kept": pa.int64(),
        "norm": pa.int64(),
        "seconds": pa.float64(),
    }
)
KEY = ("network", "claim", "epsilon", "image")


def plan(counts: dict[str, int]) -> Iterator[Row]:
    """All cells, the cheap ones first."""
    for network, count in [(n, counts["mlp"]) for n in MLPS] + [(n, counts["cnn"]) for n in CNNS]:
        for claim in (ATTACK, *CLAIMS, AVERAGED):
            slow = network in CNNS and claim == "certified"
            many = min(count, counts["certified-cnn"]) if slow else count
            for epsilon in RADII:
                for image in range(many):
                    yield {"network": network, "claim": claim, "epsilon": epsilon, "image": image}


def inputs(count: int) -> Tensor:
    """Test images, drawn once for all networks."""
    pixels, _ = images("t10k")
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(SEED))
    return pixels[order[:count]]


def measured(attribution: ab.Attribution, x: Tensor, cell: Row) -> Row:
    """How many of the top 5 stay: score by score and pair by pair, and by the norm alone."""
    ball = ab.L2Ball(cell["epsilon"])
    start = time.process_time()
    if cell["claim"] == ATTACK:
        found = ab.reasons(attribution, x, ball, K, by=BY)
        assert found.attained is not None
        kept, norm = int(found.attained.kept[0]), None
    elif cell["claim"] == AVERAGED:
        lists = ab.reasons(attribution, x, ball, K, by=BY, claim=AVERAGED, attack=False)
        kept, norm = int(lists.kept[0]), None
    else:
        method = method_of(cell["claim"])
        labels = attribution.targets(x)
        clean = attribution(x, labels)
        question = Question(attribution, x, ball, labels, wanted=(method,), predicted=True)
        (motion,) = motions(method, question, clean, K, BY)
        scores = clean[0].detach().flatten().double()
        kept = decide(scores, motion, K, BY).kept
        norm = by_norm(sizes(scores[None], BY)[0], first_of(scores[None], K, BY)[0], motion.whole)
    return {**cell, "kept": kept, "norm": norm, "seconds": time.process_time() - start}


def stored(file: Path = STORE) -> Stored:
    """What was measured so far."""
    return Stored(file, SCHEMA, KEY)


def table(rows: Sequence[Row]) -> str:
    """Means over the images that all columns have, certificates aside where they take too long."""
    heads = ["network", "l2", "images"]
    heads += [f"{name}{kind}" for name in CLAIMS for kind in (" T", "")] + [ATTACK, AVERAGED]
    lines = []
    for network in (*MLPS, *CNNS):
        for epsilon in RADII:
            own = [r for r in rows if r["network"] == network and r["epsilon"] == epsilon]
            quick = [name for name in (ATTACK, *CLAIMS) if name != "certified"]
            have = [{row["image"] for row in own if row["claim"] == name} for name in quick]
            common = set.intersection(*have)
            own = [row for row in own if row["image"] in common]
            cells: list[object] = [network, f"{epsilon:g}", len(common)]
            for claim in CLAIMS:
                some = [row for row in own if row["claim"] == claim]
                cells += [
                    _mean([row["norm"] for row in some]),
                    _mean([row["kept"] for row in some]),
                ]
            for claim in (ATTACK, AVERAGED):
                cells.append(_mean([row["kept"] for row in own if row["claim"] == claim]))
            lines.append(cells)
    every = (*CLAIMS, AVERAGED)
    seconds = [f"{_seconds(rows, MLPS, name)} / {_seconds(rows, CNNS, name)}" for name in every]
    title = (
        f"Of the top {K} pixels of |saliency|, mean number that stays: by the bound T on the whole "
        "map alone,\nscore by score and pair by pair, and under attack; beside it those of the "
        f"averaged map by votes\n({AVERAGED}, its defaults: another list, with probability "
        "1 - alpha). "
        "CPU-seconds an image, "
        f"MLP / SmallCNN: {', '.join(map(' '.join, zip(every, seconds, strict=True)))}"
    )
    proved = [row for row in rows if row["network"] in CNNS and row["claim"] == "certified"]
    aside = f"Certificates of SmallCNN: {len(proved)} in all, not of every image"
    return f"{render(title, heads, lines)}\n{aside}\n{_contradicted(rows)}"


def _contradicted(rows: Sequence[Row]) -> str:
    """How often an attack left fewer than a claim says."""
    left = {
        (row["network"], row["epsilon"], row["image"]): row["kept"]
        for row in rows
        if row["claim"] == ATTACK
    }
    said = []
    for claim in CLAIMS:
        own = [row for row in rows if row["claim"] == claim]
        wrong = sum(left[r["network"], r["epsilon"], r["image"]] < r["kept"] for r in own)
        said.append(f"{claim} {wrong} of {len(own)}")
    return f"The attack left fewer than was claimed: {', '.join(said)}"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.1f}" if values else "-"


def _seconds(rows: Sequence[Row], networks: Sequence[str], claim: str) -> str:
    some = [r["seconds"] for r in rows if r["claim"] == claim and r["network"] in networks]
    mean = sum(some) / len(some) if some else None
    return "-" if mean is None else f"{mean:.0f}" if mean >= 10 else f"{mean:.2g}"


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="KIND=COUNT")
    parser.add_argument("--only", action="store_true", help="print what is stored")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    counts = {**COUNTS, **{name: int(n) for name, n in (each.split("=") for each in asked.set)}}
    rows = stored()
    if not asked.only:
        known = rows.keys()
        x = inputs(max(counts.values()))
        attributions: dict[str, ab.Attribution] = {}
        for cell in plan(counts):
            if tuple(cell[name] for name in KEY) in known:
                continue
            network = cell["network"]
            if network not in attributions:
                attributions[network] = ab.Saliency(ab.zoo.load(network))
            row = measured(attributions[network], x[[cell["image"]]], cell)
            rows.add(pa.Table.from_pylist([row], SCHEMA))
    print(table(rows.listed()))


if __name__ == "__main__":
    main()
