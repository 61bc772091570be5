"""The report, from stored rows alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean

from attribound.basics.tables import cell as number
from attribound.basics.tables import render
from claims import goals, passes
from claims.plan import LARGE
from claims.scores import CLAIMS, Cell, Score, cells, pool
from claims.store import Row

_COSTS = ("attack", "first_order", "mean_value", "certified")

_AT_X = "l-infinity at x: norm solver against Theorem 2"
_FURTHER = 1.001  # less may be rounding: passes that end at the same point do not agree exactly


def report(rows: Sequence[Row]) -> str:
    """Goals first, then what the second pass added, every cell, costs and settings."""
    found = cells(rows)
    parts = [_goals(found, rows), _passes(found, rows)]
    networks = dict.fromkeys(cell.network for cell in found)
    parts += [_claims([cell for cell in found if cell.network == name]) for name in networks]
    parts += [_linear(rows), _costs(rows), _settings(rows)]
    return "\n\n".join(part for part in parts if part)


def _goals(found: Sequence[Cell], rows: Sequence[Row]) -> str:
    groups = {
        "Mean-value bounds": goals.mean_value(found),
        "Calibrated first-order bounds, alpha .05": goals.calibrated(found),
        "Calibrated mean-value bounds, alpha .05": goals.calibrated(found, "calibrated_mean_value"),
        "Certified bounds": goals.certified(found),
        f"{_AT_X}, 784 features": goals.linear(rows, 784),
        **{f"{_AT_X}, 3072 features, {name}": goals.linear(rows, 3072, name) for name in LARGE},
    }
    return "\n\n".join(
        render(
            title,
            ["", "measured", "goal", ""],
            [[goal.text, goal.measured, goal.goal, goal.verdict] for goal in members],
        )
        for title, members in groups.items()
    )


def _passes(found: Sequence[Cell], rows: Sequence[Row]) -> str:
    """What the second pass of attacks broke alone, and what still lacks it."""
    joined = passes.joined(rows)
    lacking = passes.unfinished(rows)
    stronger = sum(row["attack"] > _FURTHER * row["first_attack"] for row in joined)
    shown = []
    for claim in CLAIMS:
        have = [cell.scores[claim] for cell in found if claim in cell.scores]
        if have:
            whole = pool(have)
            counts = [whole.count, whole.broken, whole.only_again]
            shown.append([claim.replace("_", " "), *counts])
    text = [
        "Every pair of image and ball is attacked in two passes and the larger deviation counts,",
        "in tests and in calibration. The second starts at random points that neither the bounds",
        "nor the first have seen; it went further than the first, by more than 0.1 %,",
        f"on {stronger} of {len(joined)} pairs.",
    ]
    if lacking:
        where = len({passes.cell(row) for row in lacking})
        text += [f"Unfinished and left out: {len(lacking)} pairs without it, cells: {where}."]
    title = "Broken by the second pass alone, of pairs of test image and ball"
    header = ["", "pairs", "broken", "only by the second pass"]
    return "\n".join([*text, "", render(title, header, shown)] if shown else text)


def _claims(members: Sequence[Cell]) -> str:
    """One network: share of images with a broken bound, and mean slack, for each claim."""
    rows = []
    for cell in members:
        most = max(score.count for score in cell.scores.values())
        shown = [_shown(cell.scores.get(claim), most) for claim in CLAIMS]
        images = f"{most}+{cell.calibrations}"
        rows.append([cell.attribution, cell.ball, images, *shown])
    header = ["", "ball", "images", *[claim.replace("_", " ") for claim in CLAIMS]]
    title = f"{members[0].network}: share of images whose bound was broken, mean of bound / attack"
    return render(title, header, rows)


def _shown(score: Score | None, most: int) -> str:
    if score is None:
        return "-"
    fewer = f" ({score.count})" if score.count < most else ""
    return f"{score.share:.0%} {number(score.slack)}{fewer}"


def _linear(rows: Sequence[Row]) -> str:
    """The l-infinity problem at x by network and attribution."""
    grouped = _grouped([row for row in rows if row["role"] == "linear"])
    shown = []
    for (network, attribution), members in grouped.items():
        tight = [row["norm_upper"] / row["theorem2"] for row in members]
        shown.append(
            [
                network,
                attribution,
                members[0]["features"],
                len(members),
                fmean(tight),
                max(tight),
                fmean(row["norm_upper"] / row["norm_lower"] for row in members),
                fmean(row["norm_products"] for row in members),
                fmean(row["norm_seconds"] for row in members),
                fmean(row["theorem2_seconds"] for row in members),
            ]
        )
    header = ["", "", "features", "images", "upper / Theorem 2", "largest", "upper / lower"]
    header += ["products", "seconds", "seconds, Theorem 2"]
    return render("max |J delta| over the cube, by the norm solver", header, shown) if shown else ""


def _costs(rows: Sequence[Row]) -> str:
    """What an image costs, by network and attribution."""
    grouped = _grouped([row for row in rows if passes.first(row)])
    again = _grouped([row for row in rows if passes.second(row)])
    shown = [
        [
            network,
            attribution,
            _average(again.get((network, attribution), []), "attack_seconds"),
            *[_average(members, f"{name}_seconds") for name in _COSTS],
            *[_average(members, f"{name}_products") for name in _COSTS[1:3]],
        ]
        for (network, attribution), members in grouped.items()
    ]
    header = ["", "", "second attack", *[name.replace("_", " ") for name in _COSTS]]
    header += ["products, first order", "products, mean value"]
    title = "Seconds of one core an image, mean over balls; mean value includes its own attack"
    return render(title, header, shown) if shown else ""


def _settings(rows: Sequence[Row]) -> str:
    """Every setting the rows were computed with; more than one value is shown as such."""
    values: dict[str, dict[str, None]] = {}
    for text in dict.fromkeys(row["settings"] for row in rows):
        for key, value in json.loads(text).items():
            if key not in ("network", "images", "claims"):
                values.setdefault(key, {})[value if isinstance(value, str) else str(value)] = None
    return "\n".join(
        ["Settings", *[f"  {key}: {' | '.join(found)}" for key, found in values.items()]]
    )


def _grouped(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["network"], row["attribution"]), []).append(row)
    return grouped


def _average(rows: Sequence[Row], column: str) -> float | str:
    have = [row[column] for row in rows if row[column] is not None]
    return fmean(have) if have else "-"
