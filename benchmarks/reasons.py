"""Reasons of the shipped credit networks: for how many applicants the four reasons provably stay.

``make bench-reasons`` measures 200 applicants of each test part and prints what
``benchmarks/reasons.txt`` has, in about an hour on one core; ``--networks`` and ``--applicants``
measure less. Scores are integrated gradients from the average applicant, summed by column; radii
count standard deviations of the training part and categories can't change. By norm: what the bound
on the whole map implies. By pair: what ``ab.reasons`` says. Networks with ReLUs are explained and
proved as they run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

import attribound as ab
from attribound import data, zoo
from attribound.auditing import FeatureMoments, TableSettings, ball_in_units, inner_scaler
from attribound.basics.tables import render
from attribound.bounding.reasons.deciding import decide
from attribound.bounding.reasons.motion import WholeMap

NETWORKS = tuple(
    f"credit-{table}/{method}-mlp{kind}"
    for table in ("german", "taiwan")
    for method in ("at", "ce")
    for kind in ("", "-relu")
)
RADII = (0.02, 0.1, 0.2)
APPLICANTS, REASONS, AT_ONCE = 200, 4, 25
CLAIMS: dict[str, ab.Method] = {
    "first_order": ab.FirstOrder(),
    "mean_value": ab.MeanValue(shells=2, rounds=1),
    "certified": ab.Certified(),
}


def asked(name: str, count: int) -> tuple[ab.Attribution, Tensor, Callable[[float], ab.Ball]]:
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

    return grouped, test.read(torch.arange(min(count, len(test)))), ball


def by_norm(attribution: ab.Attribution, x: Tensor, ball: ab.Ball, method: ab.Method) -> Tensor:
    """How many reasons of each applicant stay by the bound on the whole map alone."""
    whole = ab.bound(attribution, x, ball, method=method).euclidean.tolist()
    maps = attribution(x).detach().double()
    return torch.tensor(
        [
            decide(scores, WholeMap(own, len(scores)), REASONS, "value").kept
            for scores, own in zip(maps, whole, strict=True)
        ]
    )


def rows(name: str, radius: float, count: int, claims: Sequence[str]) -> Iterator[list[str]]:
    """The attack, and a line for each claim."""
    attribution, every, of_radius = asked(name, count)
    ball, parts = of_radius(radius), torch.split(every, AT_ONCE)
    start = time.process_time()
    attacks = []
    for x in parts:
        attained = ab.reasons(attribution, x, ball, REASONS).attained
        assert attained is not None
        attacks.append(attained.kept)
    left = torch.cat(attacks)
    seconds = (time.process_time() - start) / len(every)
    stayed = f"{(left == REASONS).double().mean():.1%}"
    yield [name, f"{radius:g}", "attack", "", stayed, "", f"{seconds:.2f}"]
    for claim, method in ((each, CLAIMS[each]) for each in claims):
        start = time.process_time()
        # What was seen is part of the mean-value claim; the others do without.
        seen = claim == "mean_value"
        found = [
            ab.reasons(attribution, x, ball, REASONS, claim=method, attack=seen) for x in parts
        ]
        seconds = (time.process_time() - start) / len(every)
        pair = torch.cat([each.kept for each in found])
        norm = torch.cat([by_norm(attribution, x, ball, method) for x in parts])
        shares = (f"{(each == REASONS).double().mean():.1%}" for each in (norm, pair))
        yield [name, f"{radius:g}", claim, *shares, str(int((pair > left).sum())), f"{seconds:.2f}"]


def table(networks: Sequence[str], count: int, claims: Sequence[str]) -> str:
    """All of them."""
    title = (
        f"Share of {count} applicants whose {REASONS} reasons stay: said of the whole map and pair "
        "by pair, or left by an attack;\nhow often that left fewer than was said; CPU-seconds an "
        "applicant (mean value: with an attack of its own)"
    )
    heads = ["network", "ε", "claim", "by norm", "by pair", "exceeded", "CPU-s"]
    lines = [
        row for name in networks for radius in RADII for row in rows(name, radius, count, claims)
    ]
    return render(title, heads, lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--applicants", type=int, default=APPLICANTS, help="of each network")
    parser.add_argument("--networks", nargs="*", default=NETWORKS, help="of the zoo")
    parser.add_argument("--claims", nargs="*", default=[*CLAIMS], help="which claims")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(table(chosen.networks, chosen.applicants, chosen.claims))


if __name__ == "__main__":
    main()
