"""The samples worth looking at: those that were moved furthest, and ordinary ones."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from attribound.attributions import Grouped
from attribound.auditing import Cell, read_settings
from attribound.auditing.rows import AVERAGED
from attribound.report.groups import Group, claim_record
from attribound.report.pictures import (
    Array,
    bars,
    input_picture,
    is_surface,
    map_picture,
    map_scale,
    region_picture,
    value_range,
)

#: Bytes of pictures a page may have; cards beyond are left out.
BYTES = 500_000


@dataclass(frozen=True)
class Picture:
    """A picture and the words under it."""

    caption: str
    uri: str


@dataclass(frozen=True)
class Exhibit:
    """One sample: what was attacked, and what came of it."""

    group: int
    kind: str
    sample: int
    label: str
    epsilon: float
    degrees: float
    deviation: float
    attribution_norm: float
    label_kept: bool | None
    pictures: tuple[Picture, ...]
    surface: bool = True

    @property
    def size(self) -> int:
        """Characters of its pictures."""
        return sum(len(picture.uri) for picture in self.pictures)


@dataclass(frozen=True)
class Features:
    """What is known of the features of a run.

    Attributes:
        regions: the groups of scores that attributions sum over, by their names.
        units: how much of each feature is one unit of a radius, by the names of balls.
    """

    regions: Mapping[str, Array] = field(default_factory=dict)
    units: Mapping[str, Array] = field(default_factory=dict)

    def of(self, group: Group) -> tuple[Array | None, Array | None]:
        """Regions and units of one attribution and ball."""
        return self.regions.get(group.attribution), self.units.get(group.ball)


def gallery(
    groups: Sequence[Group],
    maps: pa.Table,
    classes: Sequence[str],
    each: int = 3,
    known: Features | None = None,
) -> list[Exhibit]:
    """The worst and the most ordinary samples of each group at its largest radius with maps.

    Worst is the largest angle, then the largest deviation; ordinary is what lies nearest to
    the median. Only samples whose maps were stored can be shown.
    """
    known = known or Features()
    stored = stored_maps(maps)
    cards: list[Exhibit] = []
    for number, group in enumerate(groups):
        for cell in reversed(group.cells):
            have = stored.get((group.attribution, group.ball, cell.epsilon))
            if have:
                for kind, row in _choice(cell, have, each):
                    (found,) = maps.slice(have[row["sample"]], 1).to_pylist()
                    cards.append(_exhibit(number, kind, row, found, classes, known.of(group)))
                break
    return _within_budget(cards)


def exhibits(
    groups: Sequence[Group],
    maps: pa.Table,
    wanted: Sequence[tuple[tuple[str, str, float], int]],
    classes: Sequence[str],
    known: Features | None = None,
    most: int = 4,
) -> list[Exhibit]:
    """At most so many of these samples (by attribution, ball and radius), if maps are stored."""
    known, stored = known or Features(), stored_maps(maps)
    cards: list[Exhibit] = []
    for key, sample in dict.fromkeys(wanted):
        if sample not in stored.get(key, {}) or len(cards) == most:
            continue
        for number, group in enumerate(groups):
            for cell in group.cells:
                if (group.attribution, group.ball, cell.epsilon) == key:
                    (row,) = cell.rows.slice(cell.samples.index(sample), 1).to_pylist()
                    (found,) = maps.slice(stored[key][sample], 1).to_pylist()
                    if row["strongest"] is not None:
                        kind, own = "counterexample", known.of(group)
                        cards.append(_exhibit(number, kind, row, found, classes, own))
    return cards


def stored_maps(maps: pa.Table) -> dict[tuple[str, str, float], dict[int, int]]:
    """Where the maps of a sample are. Keys only: maps are large, and few of them are looked at."""
    stored: dict[tuple[str, str, float], dict[int, int]] = {}
    for at, row in enumerate(maps.select(["attribution", "ball", "epsilon", "sample"]).to_pylist()):
        key = (row["attribution"], row["ball"], row["epsilon"])
        stored.setdefault(key, {})[row["sample"]] = at
    return stored


def _choice(cell: Cell, stored: Container[int], each: int) -> list[tuple[str, dict[str, Any]]]:
    """The rows to show, each with its kind."""
    rows = cell.rows.drop_columns(["bounds", "attacks"]).to_pylist()
    attacked = [row for row in rows if row["strongest"] is not None]
    ordered = sorted(
        (row for row in attacked if row["sample"] in stored), key=_severity, reverse=True
    )
    # The median of all samples, not of those with maps: these may have been chosen for being bad.
    middle = median(row["strongest"]["degrees"] for row in attacked) if attacked else 0.0
    typical = sorted(
        ordered[each:], key=lambda row: float(abs(row["strongest"]["degrees"] - middle))
    )
    return [
        *(("worst", row) for row in ordered[:each]),
        *(("typical", row) for row in typical[:each]),
    ]


def _severity(row: dict[str, Any]) -> tuple[float, float]:
    """The angle, then the deviation; a map without direction has no angle to look at."""
    angle = row["strongest"]["degrees"]
    return (angle if angle < 180 else -1.0), row["strongest"]["deviation"]


def _exhibit(
    number: int,
    kind: str,
    row: dict[str, Any],
    stored: dict[str, Any],
    classes: Sequence[str],
    own: tuple[Array | None, Array | None],
) -> Exhibit:
    x, delta = (_shaped(stored, name, "shape") for name in ("input", "delta"))
    clean, attacked = (_shaped(stored, name, "map_shape") for name in ("clean_map", "attacked_map"))
    limits = value_range(x, x + delta)
    scale = map_scale(*(_shown(values) for values in (clean, attacked, attacked - clean)))
    labels, unit = own
    pictures = (
        *_inputs(x, delta, limits, unit),
        *_staying(row, x, limits, clean.shape, labels),
        Picture("its attribution", map_picture(clean, scale)),
        Picture("attacked attribution", map_picture(attacked, scale)),
        Picture("difference of attributions", map_picture(attacked - clean, scale)),
    )
    strongest = row["strongest"]
    return Exhibit(
        group=number,
        kind=kind,
        sample=row["sample"],
        label=class_name(row["label"], classes),
        epsilon=row["epsilon"],
        degrees=strongest["degrees"],
        deviation=strongest["deviation"],
        attribution_norm=row["attribution_norm"],
        label_kept=strongest["label_kept"],
        pictures=pictures,
        surface=is_surface(x.shape),
    )


def _inputs(
    x: Array, delta: Array, limits: tuple[float, float], unit: Array | None
) -> Iterator[Picture]:
    """Before and after; columns with units of their own share no axis: of these what changed."""
    if unit is None or is_surface(x.shape) or unit.size not in (1, delta.size):
        yield Picture("input", input_picture(x, limits))
        yield Picture("attacked input", input_picture(x + delta, limits))
        return
    free = np.broadcast_to(unit.ravel(), delta.size) > 0
    moved = np.divide(delta.ravel(), unit.ravel(), out=np.zeros(delta.size), where=free)
    most = float(np.abs(moved).max()) or 1.0
    yield Picture("change of the input, in units of ε", bars(moved, (-most, most)))


def _staying(
    row: dict[str, Any],
    x: Array,
    limits: tuple[float, float],
    scores: tuple[int, ...],
    labels: Array | None,
) -> Iterator[Picture]:
    """The pixels on the list of reasons, drawn over the input: those that surely stay, and others.

    Under the strongest claim about the map that is shown.
    """
    said = [each for each in row.get("reasons") or () if each["kept"] is not None]
    said = [each for each in said if each["subject"] != AVERAGED]
    if not said or not is_surface(x.shape):
        return
    best = max(said, key=lambda each: claim_record(each["claim"]).order)
    surface = x.shape[-2:]
    if labels is None and scores[-2:] != surface:
        return
    masks: list[NDArray[np.bool_]] = []
    for flag in (True, False):
        places = [
            p for p, stays in zip(best["features"], best["stays"], strict=True) if stays == flag
        ]
        if labels is None:
            flat = np.zeros(math.prod(surface), dtype=bool)
            flat[[place % flat.size for place in places]] = True
            masks.append(flat.reshape(surface))
        else:
            inside = np.isin(labels, places).reshape(-1, *surface)
            masks.append(np.logical_or.reduce(inside))
    title = claim_record(best["claim"]).title
    stay = f"stay: {best['kept']} of {len(best['features'])} ({title}); green surely, amber open"
    yield Picture(stay, region_picture(x, limits, *masks))


def features(settings: Mapping[str, Any]) -> Features:
    """What the settings of a run say of its features."""
    try:
        made = read_settings(settings)
    except Exception:  # values of somebody else may fail in any way
        return Features()
    regions = {
        each.name: each.labels.numpy().astype(np.float64)
        for each in made.attributions
        if isinstance(each, Grouped) and not isinstance(each.labels, str)
    }
    scales = {ball.name: getattr(ball, "scale", None) for ball in made.balls}
    units = {name: each.numpy() for name, each in scales.items() if isinstance(each, Tensor)}
    return Features(regions, units)


def _shaped(stored: dict[str, Any], name: str, shape: str) -> Array:
    """Inputs and maps each in their own shape."""
    return np.asarray(stored[name], dtype=np.float64).reshape(tuple(stored[shape]))


def class_name(label: int | None, classes: Sequence[str]) -> str:
    """The name of a class, or its number if it has none."""
    if label is None:
        return "unknown"
    return classes[label] if 0 <= label < len(classes) else str(label)


def _shown(values: Array) -> Array:
    """What a picture of the map shows: the sum over channels of a surface."""
    surface = is_surface(values.shape) and values.ndim >= 3 and values.shape[-3] > 1
    return values.sum(-3) if surface else values


def _within_budget(cards: list[Exhibit]) -> list[Exhibit]:
    """The first card of each group and kind, then the second, as long as there is room."""
    turn: dict[tuple[int, str], int] = {}
    places = []
    for card in cards:
        place = turn.get((card.group, card.kind), 0)
        turn[card.group, card.kind] = place + 1
        places.append(place)
    kept, spent = set(), 0
    for index in sorted(range(len(cards)), key=places.__getitem__):
        spent += cards[index].size
        if spent > BYTES:
            break
        kept.add(index)
    return [card for index, card in enumerate(cards) if index in kept]
