"""Table 1: inputs and their attributions, before and after an attack, for every model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from attribound import metrics
from reproduction.paper.figures.drawing import (
    GREY,
    blank,
    left_out,
    note,
    nothing,
    styled,
    title_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
#: Kinds of attributions in the order of the paper's table: title and formula.
_METHODS = {
    "saliency": ("Saliency\nmap", r"$\nabla f_y(x)$"),
    "input_x_gradient": ("Input $\\times$\ngradient", r"$x \otimes \nabla f_y(x)$"),
    "ig": (
        "Integrated\ngradients",
        r"$(x-a)\otimes\int_0^1\nabla f_y(a+\alpha(x-a))\,d\alpha$",
    ),
}
_COLOURS = "magma"
_CELL = 0.9  # inches
_SATURATED = 99.5  # per cent of the entries are darker


@dataclass(frozen=True, eq=False)
class Example:
    """One sample: input and attribution, before and after the attack."""

    sample: int
    input: Array
    clean: Array
    attacked: Array

    @property
    def degrees(self) -> float:
        """The angle between the two attributions."""
        before, after = (torch.from_numpy(each).reshape(1, -1) for each in self._maps)
        return float(metrics.degrees(before, after))

    @property
    def _maps(self) -> tuple[Array, Array]:
        return self.clean, self.attacked


#: By model, then by kind of attribution.
Examples = dict[str, dict[str, Example]]


def choose(maps: Mapping[str, pa.Table]) -> Examples:
    """One sample for all models and attributions, or, where it is not stored, another.

    Runs keep the maps of some samples only; the one that most of them have is taken, and
    where it is missing the first that is there.

    Args:
        maps: of every model, with maps of one ball only.
    """
    stored: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for model, table in maps.items():
        for row in table.to_pylist():
            kind = row["attribution"].partition(":")[0]
            stored.setdefault((model, kind), {})[row["sample"]] = row
    seen = Counter(sample for rows in stored.values() for sample in rows)
    found: Examples = {}
    for (model, kind), rows in stored.items():
        # The first of the most frequent, whatever the order of the rows.
        best = min(rows, key=lambda sample: (-seen[sample], sample))
        found.setdefault(model, {})[kind] = _example(rows[best])
    return found


def value_range(values: Array) -> tuple[float, float]:
    """From 0 to 1 if an input keeps to it, otherwise from the least to the largest value."""
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low, low + 1)


def map_scale(*maps: Array) -> float:
    """The size at which colours saturate, so that single pixels don't darken the rest."""
    sizes = np.concatenate([values.ravel() for values in maps])
    return float(np.percentile(sizes, _SATURATED)) or float(sizes.max()) or 1.0


def _example(row: Mapping[str, Any]) -> Example:
    shapes = {
        "input": row["shape"],
        "clean_map": row["map_shape"],
        "attacked_map": row["map_shape"],
    }
    x, clean, attacked = (
        np.asarray(row[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items()
    )
    return Example(row["sample"], x, clean, attacked)


@styled
def draw_examples(title: str, examples: Examples, missing: Mapping[str, str]) -> Figure:
    """A column a model: the input, then of each attribution its size before and after."""
    kinds = [kind for kind in _METHODS if any(kind in each for each in examples.values())]
    if not kinds:
        return nothing(f"{title}: no maps to show. {left_out(missing)}")
    rows = 1 + 2 * len(kinds)
    figure = blank(max(_CELL * len(examples) + 0.4, 4.5), 0.5 + _CELL * rows)
    grid = figure.subplots(rows, len(examples), squeeze=False)
    for column, (model, own) in zip(grid.T, examples.items(), strict=True):
        _column(column, own, kinds)
        column[0].set_title(title_of(model))
    grid[0][0].set_ylabel("input")
    for i, kind in enumerate(kinds):
        grid[1 + 2 * i][0].set_ylabel(_METHODS[kind][0])
        grid[2 + 2 * i][0].set_ylabel("attacked", color=GREY)
    figure.suptitle(title, fontsize=9)
    formulas = [f"{name}: {formula}".replace("\n", " ") for name, formula in _METHODS.values()]
    note(
        figure,
        "Absolute values, summed over channels, brighter is more; one scale for before and after. "
        "Angles are between the signed attributions.",
        *(text for kind, text in zip(_METHODS, formulas, strict=True) if kind in kinds),
        left_out(missing),
    )
    return figure


def _column(column: Any, own: Mapping[str, Example], kinds: list[str]) -> None:
    for axes in column:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
    first = next(iter(own.values()))
    _input(column[0], first.input)
    column[0].set_xlabel(f"sample {first.sample}", fontsize=6)
    for i, kind in enumerate(kinds):
        before, after = column[1 + 2 * i], column[2 + 2 * i]
        example = own.get(kind)
        if example is None:
            before.set_xlabel("not there", fontsize=6)
            continue
        surfaces = [surface(each) for each in (example.clean, example.attacked)]
        scale = map_scale(*surfaces)
        for axes, values in zip((before, after), surfaces, strict=True):
            axes.imshow(values, cmap=_COLOURS, vmin=0, vmax=scale, interpolation="nearest")
        other = "" if example.sample == first.sample else f", sample {example.sample}"
        stayed = np.array_equal(example.clean, example.attacked)
        found = "nothing found" if stayed else f"{example.degrees:.0f}°"
        after.set_xlabel(f"{found}{other}", fontsize=6)


def _input(axes: Axes, values: Array) -> None:
    low, high = value_range(values)
    image = image_of(values)
    look: dict[str, Any] = {"cmap": "gray", "vmin": low, "vmax": high} if image.ndim == 2 else {}
    shown = image if image.ndim == 2 else ((image - low) / (high - low)).clip(0, 1)
    axes.imshow(shown, interpolation="nearest", **look)


def image_of(values: Array) -> Array:
    """``(h, w)``, or ``(h, w, 3)`` for colours; what is no image becomes nearly square."""
    if values.ndim == 3 and values.shape[0] == 3:
        return np.moveaxis(values, 0, -1)
    return surface(values, absolute=False)


def surface(values: Array, *, absolute: bool = True) -> Array:
    """The sizes of an attribution as ``(h, w)``, summed over channels."""
    seen = np.abs(values) if absolute else values
    if seen.ndim == 3:
        return np.asarray(seen.sum(0))
    if seen.ndim == 2:
        return seen
    side = math.ceil(math.sqrt(seen.size))
    padded = np.zeros(side * -(-seen.size // side))
    padded[: seen.size] = seen.ravel()
    return padded.reshape(-1, side)
