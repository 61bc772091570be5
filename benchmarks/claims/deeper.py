"""Mean-value bounds that were broken, computed again with more search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attribound as ab
from attribound.attacks import AttributionAscent
from attribound.basics.tables import render
from claims import measure
from claims.passes import joined
from claims.store import Row

#: None of their attacks begins where the second pass of the measurement did.
EFFORTS: Mapping[str, ab.MeanValue] = {
    "defaults": ab.MeanValue(),
    **{
        f"{count} starts": ab.MeanValue(attack=AttributionAscent(random_starts=count))
        for count in (8, 16)
    },
}


def broken(rows: Sequence[Row]) -> list[Row]:
    """Pairs of test image and ball in which an attack went further than the mean-value bound."""
    return [
        row
        for row in joined(rows)
        if row["role"] == "test"
        and row["mean_value"] is not None
        and row["attack"] > row["mean_value"]
    ]


def ratios(row: Row, seed: int) -> Iterator[float]:
    """What was attained / bound: as measured, then for every effort; above 1 it is broken."""
    yield row["attack"] / row["mean_value"]
    order, images, labels = measure.choice(row["network"], seed)
    place = order == row["sample"]
    attribution = measure.METHODS[row["attribution"]](measure.network(row["network"]))
    ball = ab.LpBall(row["epsilon"], row["p"])
    for method in EFFORTS.values():
        found = ab.bound(attribution, images[place], ball, labels[place], method)
        yield row["attack"] / found.euclidean.item()


def report(rows: Sequence[Row], seed: int) -> str:
    """A line a pair, and how many are still broken."""
    found = [(row, [*ratios(row, seed)]) for row in broken(rows)]
    lines: list[list[object]] = [
        [row["network"], row["attribution"], f"l{row['p']:g} {row['epsilon']:g}", *values]
        for row, values in found
    ]
    still = [sum(values[i] > 1 for _, values in found) for i in range(1 + len(EFFORTS))]
    head = ["network", "attribution", "ball", "as measured", *EFFORTS]
    efforts = [f"  {name}: {method!r}" for name, method in EFFORTS.items()]
    return "\n".join(
        [
            render("Broken mean-value bounds: attained / bound", head, lines),
            "",
            f"Still broken, of {len(found)}: "
            + ", ".join(f"{name} {count}" for name, count in zip(head[3:], still, strict=True)),
            *efforts,
        ]
    )
