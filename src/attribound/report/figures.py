"""The plots of a report as files for papers and slides: PNG and PDF."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from attribound.auditing import Cell, Run
from attribound.auditing.rows import COPY, YOURS
from attribound.basics.packages import package
from attribound.basics.whole_files import store_whole, storing
from attribound.report.groups import Group, Numbers, groups
from attribound.report.radius import bound_at
from attribound.report.subjects import copy_of, network
from attribound.results import Claim, Moves

KINDS = ("png", "pdf")
#: Symbols of plotly, by which claims name theirs, as matplotlib has them; others are dots.
_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "cross": "P",
    "x": "X",
    "triangle-up": "^",
    "triangle-down": "v",
    "triangle-left": "<",
    "triangle-right": ">",
    "pentagon": "p",
    "hexagon": "h",
    "octagon": "8",
    "star": "*",
}
_GREY = "#666666"


def figures(run: Run, folder: str | os.PathLike[str]) -> list[Path]:
    """Write scatter, gaps and curves of every attribution and ball of ``run`` to ``folder``.

    Scatter and gaps are drawn at the largest radius. With a smooth copy they hold its bounds
    against the attacks on the copy, and all bounds against those on the user's network in files
    of their own (``scatter-yours``, ``gaps-yours``). The files are returned.

    Raises:
        InputError: matplotlib is not installed.
        StorageError: the system refused to write.
    """
    figure = package("matplotlib.figure", extra="audit", purpose="figures").Figure
    place = Path(folder)
    with storing(place):
        place.mkdir(parents=True, exist_ok=True)
    written = []
    copy = copy_of(run.manifest.settings)
    for number, group in enumerate(groups(run.rows())):
        for name, (draw, on) in _plots(group).items():
            drawn = figure(figsize=(4.5, 3.4))
            axes = drawn.add_axes((0.15, 0.14, 0.82, 0.78))
            seen = Seen(group, on, copy)
            draw(seen, axes)
            axes.set_title(_plain(seen.title), fontsize=9)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7)
            for kind in KINDS:
                path = place / f"{number}-{_slug(group)}-{name}.{kind}"
                store_whole(path, _file(drawn, kind))
                written.append(path)
    return written


@dataclass(frozen=True)
class Seen:
    """A group against the attacks on one of its networks, or on both if ``on`` is empty."""

    group: Group
    on: str
    copy: str

    @property
    def title(self) -> str:
        """Attribution, ball, and whose attacks these are."""
        shown = self.group.has_copy and self.on
        return f"{self.group.title}{f', attacks on {network(self.on, self.copy)}' if shown else ''}"

    @property
    def claims(self) -> dict[Claim, str]:
        """The claims to be held against these attacks, with their titles."""
        group = self.group
        return {
            claim: group.title_of(claim, self.copy)
            for claim in group.plain
            # What is said of the network itself says nothing of its copy.
            if not group.has_copy or self.on != COPY or group.subject(claim) == COPY
        }

    def attack(self, cell: Cell) -> Numbers:
        """What the strongest attacks attained."""
        own = self.group.has_copy and self.on == YOURS
        return cell.yours("deviation") if own else cell.strongest("deviation")


def _scatter(shown: Seen, axes: Any) -> None:
    cell = shown.group.cells[-1]
    attack = shown.attack(cell)
    seen = [attack]
    for claim, title in shown.claims.items():
        bound = cell.bound(claim.name)
        bound = np.where(np.isfinite(bound), bound, np.nan)
        seen.append(bound)
        style = {**_look(claim), "s": 12, "alpha": 0.7, "linewidths": 0}
        axes.scatter(bound, attack, label=_plain(title), **style)
    values = np.concatenate(seen)
    positive = values[values > 0]
    if len(positive):
        ends = [positive.min(), positive.max()]
        axes.plot(ends, ends, "--", color=_GREY, linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticker = package("matplotlib.ticker", extra="audit", purpose="figures")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            axis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel(f"bound on the deviation, ε = {cell.epsilon:g}")
    axes.set_ylabel("deviation attained")


def _gaps(shown: Seen, axes: Any) -> None:
    cell = shown.group.cells[-1]
    attack = shown.attack(cell)
    gaps = {}
    for claim in shown.claims:
        bound = cell.bound(claim.name)
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = 1 - attack / bound
        gaps[claim] = gap[np.isfinite(gap) & np.isfinite(bound)]
    together = np.concatenate([*gaps.values(), [0.0]])
    # The same bins for every claim.
    bins = np.linspace(together.min(), together.max() or 1.0, 31)
    for claim, gap in gaps.items():
        colour = _look(claim)["color"]
        label = _plain(shown.claims[claim])
        axes.hist(gap, bins=bins, alpha=0.6, color=colour, label=label)
    axes.axvline(0, color=_GREY, linestyle="--", linewidth=1)
    axes.set_xlabel(f"1 - attack / bound, ε = {cell.epsilon:g}")
    axes.set_ylabel("samples")


def _curves(shown: Seen, axes: Any) -> None:
    group = shown.group
    radii = np.linspace(0, 1.5 * group.epsilons[-1], 61)[1:]
    for claim, title in shown.claims.items():
        look, measured = _look(claim), group.bounds(claim)
        if claim.moves is Moves.SCALED:
            found = [bound_at(float(r), measured, Moves.SCALED, group.linear) for r in radii]
            line = [_mean(values) for values in found if values is not None]
            axes.plot(radii, line, color=look["color"], linewidth=1)
        dots = [_mean(values) for values in measured.values()]
        steps = {"drawstyle": "steps-pre", "linestyle": "-" if claim.moves is Moves.NESTED else ""}
        axes.plot(group.epsilons, dots, label=_plain(title), linewidth=1, **look, **steps)
    attacks = {"strongest attack": (group.attacks(), _GREY, "x")}
    if group.has_copy:
        attacks = {
            f"strongest attack on {network(YOURS, shown.copy)}": (group.yours(), "black", "+"),
            f"strongest attack on {network(COPY, shown.copy)}": (group.attacks(), _GREY, "x"),
        }
    for label, (measured, colour, marker) in attacks.items():
        look = {"color": colour, "marker": marker, "drawstyle": "steps-post"}
        line = [_mean(values) for values in measured.values()]
        axes.plot(group.epsilons, line, label=label, linewidth=1, **look)
    axes.set_xlabel("radius ε")
    axes.set_ylabel("mean deviation")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _plots(group: Group) -> Mapping[str, tuple[Callable[[Seen, Any], None], str]]:
    """What is drawn of a group by the names of files, and the network whose attacks are shown."""
    found = {"scatter": (_scatter, COPY), "gaps": (_gaps, COPY), "curves": (_curves, "")}
    if group.has_copy:
        found |= {"scatter-yours": (_scatter, YOURS), "gaps-yours": (_gaps, YOURS)}
    return found


def _look(claim: Claim) -> dict[str, str]:
    """Colour and marker of a claim; grey if its colour is none that matplotlib knows."""
    colours = package("matplotlib.colors", extra="audit", purpose="figures")
    colour = claim.colour if colours.is_color_like(claim.colour) else _GREY
    return {"color": colour, "marker": _MARKERS.get(claim.symbol, "o")}


def _plain(text: str) -> str:
    """Dollars would be read as formulas."""
    return text.replace("$", r"\$")


def _mean(values: Any) -> float:
    """Over samples with a value; NaN, which is not drawn, if there is none or one is infinite."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) and np.isfinite(known).all() else float("nan")


def _file(figure: Any, kind: str) -> bytes:
    out = BytesIO()
    # No date: the same run gives the same file.
    undated = {"CreationDate": None} if kind == "pdf" else {}
    figure.savefig(out, format=kind, dpi=200, metadata=undated)
    return out.getvalue()


def _slug(group: Group) -> str:
    """A file name, whatever the attribution is called."""
    return re.sub(r"[^a-z0-9.]+", "-", f"{group.attribution}-{group.ball}".lower()).strip("-.")[:60]
