"""The report of averaged maps, from stored rows alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribound.basics.tables import render
from attribound.bounding.smoothed import ALIKE
from relu.smoothed import RADII, SUBJECTS

_LEAST = 0.05  # degrees, as they are shown
_USEFUL = 30.0
_NOTHING = 180.0


def report(rows: pa.Table) -> str:
    """Degrees that averaged maps turn, proved and attacked; anchors; votes; costs."""
    if not rows.num_rows:
        return "Of averaged maps nothing is measured yet."
    names = [name for name in SUBJECTS if pc.any(pc.equal(rows["network"], name)).as_py()]
    return "\n\n".join(make(rows, names) for make in (_turns, _anchors, _votes, _costs))


def _turns(rows: pa.Table, names: list[str]) -> str:
    header = ["", "examples", "draws", "moves °", "shown °", "attack °", "moves / attack"]
    header += ["below 30° at .1", "cosine", "another", "keeps label"]
    lines = []
    for name in names:
        own = {radius: _of(rows, name, radius) for radius in RADII}
        some = own[0.1]
        slack = [slack_of(own[radius]) for radius in RADII]
        lines.append(
            [
                name,
                len(some["degrees"]),
                int(some["draws"].max()),
                *(_slashed(own, field) for field in ("degrees", "shown_degrees", "attack")),
                " / ".join("-" if value is None else f"{value:.1f}" for value in slack),
                f"{(some['degrees'] < _USEFUL).mean():.0%}",
                f"{np.median(some['similarity']):.2f}",
                f"{int((some['similarity'] < ALIKE).sum())} of {len(some['similarity'])}",
                f"{np.median(some['label_share']):.0%}",
            ]
        )
    title = (
        "Averaged maps (claim: certified (smoothed); subject: the averaged map of your network; "
        "saliency, sigma .25, alpha .001), l2 radius .05 / .1 / .25, medians"
    )
    return render(title, header, lines)


def _anchors(rows: pa.Table, names: list[str]) -> str:
    lines = [
        [
            name,
            *(
                _slashed({r: _of(rows, name, r) for r in RADII}, field)
                for field in ("degrees", "mean_only", "uniform")
            ),
        ]
        for name in names
    ]
    header = ["", "ours °", "mean-only °, the same draws", "uniform noise °, a fifth of the draws"]
    return render("The same by what the literature has, medians; - for 180", header, lines)


def _votes(rows: pa.Table, names: list[str]) -> str:
    lines = []
    for name in names:
        own = {radius: _of(rows, name, radius) for radius in RADII}
        scores, k = own[0.1]["scores"][0], own[0.1]["k"][0]
        opened = {r: {"open": v["scores"] - v["inside"] - v["outside"]} for r, v in own.items()}
        lines.append(
            [
                name,
                f"{k:.0f} of {scores:.0f}",
                *(_whole(own, field) for field in ("inside", "outside")),
                _whole(opened, "open"),
                _whole(own, "overlap"),
            ]
        )
    header = ["", "k", "surely in", "surely out", "open", "of the top k stay"]
    title = (
        "Votes for the largest scores, medians; in, out and open as Anani et al. define them for "
        "pixels, what stays of the top k as Levine et al. do"
    )
    return render(title, header, lines)


def _costs(rows: pa.Table, names: list[str]) -> str:
    lines = []
    for name in names:
        some = _of(rows, name, 0.1)
        lines.append(
            [
                name,
                SUBJECTS[name].about,
                int(some["draws"].max()),
                f"{np.median(some['seconds']):.1f}",
                f"{np.median(some['attack_seconds']):.1f}",
            ]
        )
    header = ["", "", "draws", "certificate, all radii", "attack, a radius"]
    return render("Processor seconds an example (median), on a busy machine", header, lines)


def _of(rows: pa.Table, name: str, radius: float) -> dict[str, np.ndarray]:
    mask = pc.and_(pc.equal(rows["network"], name), pc.equal(rows["epsilon"], radius))
    chosen = rows.filter(mask)
    return {
        field.name: pc.cast(chosen[field.name], pa.float64()).to_numpy()
        for field in rows.schema
        if not pa.types.is_string(field.type)
    }


def slack_of(own: dict[str, np.ndarray]) -> float | None:
    """The median of what is proved over what was attained; None where nothing is proved."""
    if _turned(own["degrees"]) >= _NOTHING:
        return None
    # An estimate that found no motion at all is beside nothing.
    return _median(own["degrees"] / np.maximum(own["attack"], _LEAST))


def _slashed(own: dict[float, dict[str, np.ndarray]], field: str) -> str:
    values = [_turned(own[radius][field]) for radius in RADII]
    return " / ".join("-" if value >= _NOTHING else f"{value:.1f}" for value in values)


def _whole(own: dict[float, dict[str, np.ndarray]], field: str) -> str:
    return " / ".join(f"{_median(own[radius][field]):.0f}" for radius in RADII)


def _turned(degrees: np.ndarray) -> float:
    """Their median; nothing is limited where that would be half of the way to no limit."""
    open_ = np.quantile(degrees, 0.5, method="higher") >= _NOTHING
    return _NOTHING if open_ else _median(degrees)


def _median(values: np.ndarray) -> float:
    return float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else _NOTHING
