"""Appendix: eta, what linearisation leaves out, as the perturbation grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reproduction.paper.figures.drawing import (
    BLUE,
    GREY,
    RED,
    left_out,
    legend,
    note,
    nothing,
    panels,
    styled,
    title_of,
)
from reproduction.paper.numbers import column
from reproduction.paper.statistics import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How a perturbation was found: its name in the legend, and its look.
_BY = {"random": ("random", BLUE, "o"), "ascent": ("attack", RED, "s")}


def curve(table: pa.Table, by: str, name: str) -> tuple[Values, Values]:
    """Radii, and at each the 10th, 50th and 90th percentile ``(3, radii)`` over samples.

    Args:
        table: an ``eta`` record.
        by: ``random`` or ``ascent``.
        name: the column.
    """
    rows = table.filter(pc.equal(table["by"], by))
    at, values = column(rows, "epsilon"), column(rows, name)
    radii = np.unique(at)
    levels = [np.percentile(values[at == radius], (10, 50, 90)) for radius in radii]
    return radii, np.array(levels).T.reshape(3, len(radii))


@styled
def draw_remainders(
    title: str, models: Mapping[str, pa.Table], missing: Mapping[str, str]
) -> Figure:
    """One panel a model: eta beside the deviation and the norm of the attribution."""
    if not models:
        return nothing(f"{title}: no records of eta. {left_out(missing)}")
    figure, axes = panels(len(models), 3, (2.35, 1.8))
    for panel, (model, table) in zip(axes, models.items(), strict=True):
        if panel is not axes[0]:
            panel.sharey(axes[0])  # before anything is drawn, or the first decides alone
        _panel(panel, table)
        panel.set_title(f"{title_of(model)}\n{_share(table)}")
        panel.set_xlabel(r"$\|\delta\|_\infty$")
    legend(figure, title, axes[:1])
    note(
        figure,
        "Medians over samples, bands from the 10th to the 90th percentile. Per cents: median of "
        "η / deviation at the largest radius.",
        left_out(missing),
    )
    return figure


def _panel(axes: Axes, table: pa.Table) -> None:
    for by, (name, colour, marker) in _BY.items():
        radii, (low, middle, high) = curve(table, by, "eta")
        axes.fill_between(radii, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(radii, middle, color=colour, marker=marker, ms=3, label=f"η, {name}")
        _, (_, deviation, _) = curve(table, by, "deviation")
        axes.plot(radii, deviation, "--", color=colour, label=f"deviation, {name}")
    size = float(np.median(column(table, "attribution_norm")))
    axes.axhline(size, color=GREY, linestyle=":", label=r"$\|g(x)\|$")
    axes.set_yscale("log")
    axes.locator_params(axis="x", nbins=4)


def _share(table: pa.Table) -> str:
    """The median of eta / deviation at the largest radius, of each kind of perturbation."""
    rows = table.filter(pc.equal(table["epsilon"], pc.max(table["epsilon"])))
    parts = []
    for by, (name, _, _) in _BY.items():
        own = rows.filter(pc.equal(rows["by"], by))
        eta, deviation = column(own, "eta"), column(own, "deviation")
        moved = deviation > 0
        if moved.any():
            parts.append(f"{name} {np.median(eta[moved] / deviation[moved]):.0%}")
    return ", ".join(parts)
