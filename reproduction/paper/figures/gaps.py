"""Appendix: distributions of the gap between bounds and attributions under attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attribound.auditing import Cell
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
from reproduction.paper.numbers import measured
from reproduction.paper.statistics import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 24


@dataclass(frozen=True, eq=False)
class Gaps:
    """T_e minus the furthest deviation of each sample; below zero the bound was exceeded.

    Attributes:
        paper: by the paper's attack.
        strong: by ours, of the samples that it was made on.
        unbounded: samples with an infinite bound, in neither.
    """

    paper: Values
    strong: Values
    unbounded: int = 0


def gaps_of(paper: Cell, strong: Cell | None) -> Gaps:
    """The gaps of one model in one ball, both to the bound of the run with the paper's attack.

    Args:
        paper: the first-order bound and the strongest attack are used.
        strong: the same under our attacks; None if there are none.
    """
    fine = measured(paper)
    bound, attack = fine.bound("first_order"), fine.strongest("deviation")
    attack = np.where(attack > 0, attack, np.nan)  # IFIA stays where it finds nothing
    finite = np.isfinite(bound)
    by_sample = dict(zip(fine.samples, bound, strict=True))
    far: list[float] = []
    if strong is not None:
        rows = zip(strong.samples, strong.strongest("deviation"), strict=True)
        far = [by_sample[sample] - value for sample, value in rows if sample in by_sample]
    reached = np.array(far)
    return Gaps(
        paper=_known((bound - attack)[finite]),
        strong=_known(reached[np.isfinite(reached)]),
        unbounded=int(np.isposinf(bound).sum()),
    )


@styled
def draw_gaps(title: str, models: Mapping[str, Gaps], missing: Mapping[str, str]) -> Figure:
    """One histogram a model, of the paper's attack (filled) and of ours (outlined)."""
    if not models:
        return nothing(f"{title}: no runs to draw gaps from. {left_out(missing)}")
    figure, axes = panels(len(models), 3, (2.35, 1.6))
    for panel, (model, gaps) in zip(axes, models.items(), strict=True):
        _panel(panel, gaps)
        panel.set_title(title_of(model))
    figure.supylabel("samples", fontsize=8)
    legend(figure, title, axes)
    unbounded = sum(gaps.unbounded for gaps in models.values())
    note(
        figure,
        "Left of the dashed line the attack went beyond the bound: in brackets, how often.",
        f"{unbounded} samples have an infinite bound." if unbounded else "",
        left_out(missing),
    )
    return figure


def _panel(axes: Axes, gaps: Gaps) -> None:
    both = np.concatenate([gaps.paper, gaps.strong, [0.0]])
    # The same bins for both, and one of their edges at zero.
    width = (both.max() - both.min()) / _BINS or 1.0
    ends = int(np.floor(both.min() / width)), int(np.ceil(both.max() / width))
    edges = [width * i for i in range(ends[0], ends[1] + 1)]
    exceeded = []
    if len(gaps.paper):
        axes.hist(gaps.paper, edges, color=BLUE, alpha=0.55, label="the paper's attack")
        exceeded.append(_exceeded(gaps.paper, "paper"))
    if len(gaps.strong):
        axes.hist(gaps.strong, edges, histtype="step", color=RED, label="our strongest attack")
        exceeded.append(_exceeded(gaps.strong, "ours"))
    axes.axvline(0, color=GREY, linestyle="--", linewidth=0.8)
    axes.set_xlabel(f"$T_e$ - deviation   [{', '.join(exceeded)}]", fontsize=7)
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=4, integer=True)


def _exceeded(gaps: Values, name: str) -> str:
    return f"{name} {int((gaps < 0).sum())}/{len(gaps)}"


def _known(values: Values) -> Values:
    return values[~np.isnan(values)]
