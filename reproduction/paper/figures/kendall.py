"""Figure 2: does a model with a larger rank correlation under attack have a smaller T_c?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reproduction.paper.figures.drawing import (
    blank,
    left_out,
    look_of,
    note,
    nothing,
    styled,
    title_of,
)
from reproduction.paper.numbers import UNDEFINED
from reproduction.paper.statistics import Numbers, rank_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Angles drawn: key of the number, and what it is.
_ANGLES = {
    "bound_degrees": "$T_c$, mean of samples (degrees)",
    "aggregate_degrees": "$T_c$ of means, as the paper (degrees)",
}


@dataclass(frozen=True)
class DataSet:
    """One panel.

    Attributes:
        title: of the data.
        epsilon: the radius as printed.
        models: numbers of each model, as :func:`numbers.paper_numbers` gives them.
        missing: models without, and why.
    """

    title: str
    epsilon: str
    models: Mapping[str, Numbers]
    missing: Mapping[str, str]


def pairs(data: DataSet, angle: str) -> dict[str, tuple[float, float]]:
    """T_c and Kendall of every model that has both; 180 degrees where nothing bounds the angle."""
    found = {}
    for model, numbers in data.models.items():
        degrees, tau = numbers.get(angle), numbers.get("kendall")
        if degrees is not None and tau is not None:
            found[model] = (degrees, tau)
    return found


def points(data: DataSet, angle: str) -> dict[str, tuple[float, float]]:
    """Those that can be drawn; an unbounded angle is no point."""
    return {model: pair for model, pair in pairs(data, angle).items() if pair[0] < UNDEFINED}


@styled
def draw_kendall(sets: Sequence[DataSet]) -> Figure:
    """One column a data set, one row a way to sum up T_c, one point a model."""
    shown = [data for data in sets if data.models]
    missing = "\n".join(f"{data.title}: {left_out(data.missing)}" for data in sets if data.missing)
    if not shown:
        return nothing(f"No runs to draw Kendall against T_c from. {missing}")
    figure = blank(max(4.5, 2.4 * len(shown)), 4.2)
    grid = figure.subplots(len(_ANGLES), len(shown), squeeze=False)
    for row, angle in zip(grid, _ANGLES, strict=True):
        for axes, data in zip(row, shown, strict=True):
            _panel(axes, data, angle)
        row[0].set_ylabel("Kendall's τ under attack")
    for axes, data in zip(grid[0], shown, strict=True):
        axes.set_title(f"{data.title}, ε = {data.epsilon}\n{axes.get_title()}")
    models = {model: None for data in shown for model in data.models}
    handles = [
        grid[0][0].plot([], [], linestyle="", label=title_of(model), **look_of(model))[0]
        for model in models
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    note(figure, *_undefined(shown), missing)
    return figure


def _panel(axes: Axes, data: DataSet, angle: str) -> None:
    found = pairs(data, angle)
    there = points(data, angle)
    if not there:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "nothing bounded", ha="center", transform=axes.transAxes)
    for model, (degrees, tau) in there.items():
        axes.plot(degrees, tau, linestyle="", markersize=6, **look_of(model))
    correlation = rank_correlation(list(found.values()))
    if correlation is None:
        axes.set_title(f"{len(found)} models, nothing to rank")
    else:
        axes.set_title(rf"Spearman $\rho$ = {correlation[0]:.2f}, p = {correlation[1]:.2g}")
    axes.set_xlabel(_ANGLES[angle])
    axes.margins(0.12)
    axes.grid(color="#dddddd", linewidth=0.5)


def _undefined(shown: Sequence[DataSet]) -> tuple[str, str]:
    """Samples, and models, of which nothing bounds the angle."""
    samples, models = [], []
    for data in shown:
        numbers = data.models.values()
        count, n = (int(sum(each.get(key) or 0 for each in numbers)) for key in ("undefined", "n"))
        if count:
            samples.append(f"{count} of {n} ({data.title})")
        drawn = points(data, "aggregate_degrees")
        models += [f"{title_of(each)} ({data.title})" for each in data.models if each not in drawn]
    return (
        f"Samples with no bound on the angle, in no mean: {', '.join(samples)}" if samples else "",
        f"Angle of means not bounded, ranked as 180°: {', '.join(models)}" if models else "",
    )
