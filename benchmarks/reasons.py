"""Reasons of the shipped credit networks: for how many applicants the four reasons provably stay.

``make bench-reasons`` measures what ``benchmarks/results/reasons.parquet`` has not yet, 25
applicants at a time, and prints the table (an hour or two on one core for 200 applicants of each
test part); killed, it goes on where it was. ``--networks`` and ``--applicants`` measure less,
``--only`` prints what is stored. Scores are integrated gradients from the average applicant, summed
by column; radii count standard deviations of the training part and categories can't change. By
norm: what the bound on the whole map implies. By pair: what ``ab.reasons`` says. Networks with
ReLUs are explained and proved as they run.

``--claims smoothed`` is measured where it is asked for: its lists are those of averaged maps.
Beside it stands what the attack's perturbations leave of these. One sample of draws serves all
radii, and takes seconds an applicant.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

import attribound as ab
from attribound import data, zoo
from attribound.attacks.displace import staying
from attribound.attributions.averaged import Averaged
from attribound.auditing import FeatureMoments, TableSettings, ball_in_units, inner_scaler
from attribound.basics.tables import render
from attribound.bounding.method import Question
from attribound.bounding.reasons.averaged import Drawn, drawn
from attribound.bounding.reasons.deciding import decide
from attribound.bounding.reasons.motion import WholeMap
from attribound.bounding.smoothed.reach import reach
from claims.store import Stored

STORE = Path(__file__).parent / "results" / "reasons.parquet"
NETWORKS = tuple(
    f"credit-{table}/{method}-mlp{kind}"
    for kind in ("", "-relu")
    for table in ("german", "taiwan")
    for method in ("at", "ce")
)
RADII = (0.02, 0.1, 0.2)
APPLICANTS, REASONS, AT_ONCE = 200, 4, 25
ATTACK, ATTACK_ON_AVERAGED = "attack", "attack on the averaged map"
CLAIMS: dict[str, ab.Method] = {
    "first_order": ab.FirstOrder(),
    "mean_value": ab.MeanValue(shells=2, rounds=1),
    "certified": ab.Certified(),
}
SMOOTHED = "smoothed"
AVERAGED = ab.Smoothed(draws=20_000, chunk=400)
JUDGING = {"draws": 1000, "seed": 7919}  # of averaged maps, before and after alike
ATTACKS = (ATTACK, ATTACK_ON_AVERAGED)
ORDER = [ATTACK, *CLAIMS, ATTACK_ON_AVERAGED, SMOOTHED]

Row = dict[str, Any]
SCHEMA = pa.schema(
    {
        "network": pa.string(),
        "epsilon": pa.float64(),
        "claim": pa.string(),
        "applicant": pa.int64(),
        "norm": pa.int64(),
        "pair": pa.int64(),
        "seconds": pa.float64(),
    }
)
KEY = ("network", "epsilon", "claim", "applicant")
Asked = tuple[ab.Attribution, Tensor, Callable[[float], ab.Ball]]


@cache
def asked(name: str) -> Asked:
    """The attribution of a network, applicants, and the ball of a radius."""
    model = zoo.load(name)
    test = data.load(name.partition("/")[0], "test")
    scaler, columns = inner_scaler(model), test.columns
    assert scaler is not None
    assert columns is not None
    moments = FeatureMoments(
        *(torch.tensor(each, dtype=torch.float64) for each in (scaler.mean, scaler.std))
    )
    exact = name.endswith("-relu")
    ig = ab.IntegratedGradients(
        model,
        baseline=moments.mean.float(),
        quadrature="exact" if exact else "riemann_right",
    )
    grouped = ab.Grouped(ig, torch.tensor(columns.groups))

    def ball(radius: float) -> ab.Ball:
        return ball_in_units(ab.L2Ball(radius), TableSettings(), columns, moments)

    return grouped, test.read(torch.arange(min(APPLICANTS, len(test)))), ball


def by_norm(attribution: ab.Attribution, x: Tensor, ball: ab.Ball, method: ab.Method) -> list[int]:
    """How many reasons of each applicant stay by the bound on the whole map alone."""
    whole = ab.bound(attribution, x, ball, method=method).euclidean.tolist()
    maps = attribution(x).detach().double()
    return [
        decide(scores, WholeMap(own, len(scores)), REASONS, "value").kept
        for scores, own in zip(maps, whole, strict=True)
    ]


def blocks(networks: Sequence[str], count: int, claims: Sequence[str]) -> Iterator[list[Row]]:
    """Applicants of one network, radius and claim; the first of every network come first."""
    for first in range(0, count, AT_ONCE):
        for name in networks:
            for radius in RADII:
                attacks = [ATTACK] + [ATTACK_ON_AVERAGED] * (SMOOTHED in claims)
                for claim in (*attacks, *claims):
                    key = {"network": name, "epsilon": radius, "claim": claim}
                    places = range(first, min(first + AT_ONCE, count))
                    yield [{**key, "applicant": place} for place in places]


def measured(block: Sequence[Row], of: Callable[[str], Asked] = asked) -> list[Row]:
    """How many of the four stay; CPU-seconds are shared among the applicants of a block."""
    if block[0]["claim"] == SMOOTHED:
        return _averaged(block, of)
    attribution, every, of_radius = of(block[0]["network"])
    x, ball = every[[row["applicant"] for row in block]], of_radius(block[0]["epsilon"])
    claim, norm = block[0]["claim"], [None] * len(block)
    start = time.process_time()
    if claim in ATTACKS:
        attained = ab.reasons(attribution, x, ball, REASONS).attained
        assert attained is not None
        kept = attained.kept
        if claim == ATTACK_ON_AVERAGED:
            kept = _on_averaged(attribution, x, ball, attained.delta)
        pair = kept.tolist()
        seconds = time.process_time() - start
    else:
        method = CLAIMS[claim]
        # What was seen is part of the mean-value claim; the others do without.
        seen = claim == "mean_value"
        pair = ab.reasons(attribution, x, ball, REASONS, claim=method, attack=seen).kept.tolist()
        seconds = time.process_time() - start
        norm = by_norm(attribution, x, ball, method)
    return [
        {**row, "norm": by, "pair": own, "seconds": seconds / len(block)}
        for row, by, own in zip(block, norm, pair, strict=True)
    ]


def _on_averaged(attribution: ab.Attribution, x: Tensor, ball: ab.Ball, delta: Tensor) -> Tensor:
    """What the perturbations that left fewest of the plain lists leave of the averaged ones."""
    about = AVERAGED.speaks_of(attribution, x, ball)
    assert isinstance(about, Averaged)
    about, labels = replace(about, **JUDGING), attribution.targets(x)
    before, after = (about.revalue(points, labels) for points in (x, x + delta))
    return staying(after, before, REASONS, "value")


def _averaged(block: Sequence[Row], of: Callable[[str], Asked]) -> list[Row]:
    """The same of averaged maps; seconds are those of the draws, which all radii share."""
    rows = []
    for row in block:
        made, seconds = _sample(of, row["network"], row["applicant"])
        _, every, of_radius = of(row["network"])
        ball = of_radius(row["epsilon"])
        motion = made.motion(reach(ball, every[[row["applicant"]]], AVERAGED.sigma).shift)
        whole = WholeMap(motion.whole, motion.size)
        norm, pair = (decide(made.scores, each, REASONS, "value").kept for each in (whole, motion))
        rows.append({**row, "norm": norm, "pair": pair, "seconds": seconds})
    return rows


@cache
def _sample(of: Callable[[str], Asked], network: str, applicant: int) -> tuple[Drawn, float]:
    """The draws of one applicant, and what they cost."""
    attribution, every, of_radius = of(network)
    x = every[[applicant]]
    start = time.process_time()
    question = Question(attribution, x, of_radius(1.0), attribution.targets(x))
    (made,) = drawn(AVERAGED, question, REASONS, "value")
    return made, time.process_time() - start


def stored(file: Path = STORE) -> Stored:
    """What was measured so far."""
    return Stored(file, SCHEMA, KEY)


def run(wanted: Sequence[list[Row]], file: Path, of: Callable[[str], Asked] = asked) -> None:
    """Measure what is missing, block by block."""
    rows = stored(file)
    known = rows.keys()
    for number, block in enumerate(wanted, 1):
        lacking = [row for row in block if tuple(row[name] for name in KEY) not in known]
        if lacking:
            print(f"{number}/{len(wanted)}: {lacking[0]}", file=sys.stderr, flush=True)
            rows.add(pa.Table.from_pylist(measured(lacking, of), SCHEMA))


def table(rows: Sequence[Row]) -> str:
    """Shares over all applicants that are stored, and how often a claim was contradicted."""
    title = (
        f"Share of applicants whose {REASONS} reasons stay: said of the whole map and pair by "
        "pair, or left by an attack;\nhow often that left fewer than was said; CPU-seconds an "
        "applicant (mean value: with an attack of its own; smoothed: for all radii)"
    )
    heads = ["ε", "applicants", "claim", "by norm", "by pair", "exceeded", "CPU-s"]
    left = {_against(row): row["pair"] for row in rows if row["claim"] in ATTACKS}
    cells: dict[tuple[str, float, str], list[Row]] = {}
    for row in rows:
        if _against(row) in left:
            cells.setdefault((row["network"], row["epsilon"], row["claim"]), []).append(row)
    lines: dict[str, list[list[str]]] = {}
    for (name, radius, claim), own in sorted(cells.items(), key=lambda item: _place(item[0])):
        said = claim not in ATTACKS
        above = sum(row["pair"] > left[_against(row)] for row in own)
        seconds = sum(row["seconds"] for row in own) / len(own)
        whole = _share([row["norm"] for row in own]) if said else ""
        pair = _share([row["pair"] for row in own])
        told = [claim, whole, pair, str(above) if said else "", f"{seconds:.2f}"]
        lines.setdefault(name, []).append([f"{radius:g}", str(len(own)), *told])
    return "\n\n".join([title, *(render(name, heads, own) for name, own in lines.items())])


def _against(row: Row) -> tuple[str, float, int, str]:
    """The attack that a row is judged by: one on the map that it speaks of."""
    averaged = row["claim"] in (SMOOTHED, ATTACK_ON_AVERAGED)
    attack = ATTACK_ON_AVERAGED if averaged else ATTACK
    return row["network"], row["epsilon"], row["applicant"], attack


def _place(cell: tuple[str, float, str]) -> tuple[int, float, int]:
    name, radius, claim = cell
    return NETWORKS.index(name), radius, ORDER.index(claim)


def _share(kept: Sequence[int]) -> str:
    return f"{sum(each == REASONS for each in kept) / len(kept):.1%}"


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--applicants", type=int, default=APPLICANTS, help="of each network")
    parser.add_argument("--networks", nargs="*", default=NETWORKS, help="of the zoo")
    parser.add_argument("--claims", nargs="*", default=[*CLAIMS], help="which claims")
    parser.add_argument("--only", action="store_true", help="print what is stored")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if not chosen.only:
        run([*blocks(chosen.networks, chosen.applicants, chosen.claims)], STORE)
    print(table(stored().listed()))


if __name__ == "__main__":
    main()
