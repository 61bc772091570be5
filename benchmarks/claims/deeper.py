"""Mean-value bounds that were exceeded, computed again with more search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

import attribound as ab
from attribound.attacks import AttributionAscent
from attribound.basics.tables import render
from claims import measure

#: None of their attacks begins where the second pass of the measurement did.
EFFORTS: Mapping[str, ab.MeanValue] = {
    f"{count} starts": ab.MeanValue(attack=AttributionAscent(random_starts=count))
    for count in (2, 8, 16)
}


def exceeded(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Tests in which an attack went further than the mean-value bound, with both numbers."""
    for row in rows.to_pylist():
        for bound in row["bounds"]:
            if row["role"] == "test" and bound["claim"] == "mean_value" and bound["exceeded"]:
                attack = row["strongest"]["deviation"]
                yield {**row, "attack": attack, "mean_value": bound["euclidean"]}


def ratios(row: Mapping[str, Any], seed: int) -> Iterator[float]:
    """What was attained / bound: as measured, then for every effort; above 1 it is exceeded."""
    yield row["attack"] / row["mean_value"]
    order, images, labels = measure.choice(row["network"], seed)
    at = order == row["sample"]
    attribution = measure.ATTRIBUTIONS[row["attribution"]].of(measure.network(row["network"]))
    ball = ab.from_spec({"kind": row["ball"], "epsilon": row["epsilon"]}, ab.Ball)
    for method in EFFORTS.values():
        found = ab.bound(attribution, images[at], ball, labels[at], method)
        yield row["attack"] / found.euclidean.item()


def report(rows: pa.Table, seed: int) -> str:
    """A line a pair, and how many are still exceeded."""
    found = [(row, [*ratios(row, seed)]) for row in exceeded(rows)]
    lines: list[list[object]] = [
        [row["network"], row["attribution"], f"{row['ball']} {row['epsilon']:g}", *values]
        for row, values in found
    ]
    still = [sum(values[i] > 1 for _, values in found) for i in range(1 + len(EFFORTS))]
    head = ["network", "attribution", "ball", "as measured", *EFFORTS]
    counts = [f"{name} {count}" for name, count in zip(head[3:], still, strict=True)]
    return "\n".join(
        [
            render("Exceeded mean-value bounds: attained / bound", head, lines),
            "",
            f"Still exceeded, of {len(found)}: {', '.join(counts)}",
            *[f"  {name}: {method!r}" for name, method in EFFORTS.items()],
        ]
    )
