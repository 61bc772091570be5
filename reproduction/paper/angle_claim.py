"""The claim of Figure 2, judged: across models, a larger Kendall goes with a smaller T_c."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduction.paper.items import DATA, METHODS
from reproduction.paper.judging import FAILS, HOLDS, UNDECIDED, Judged, PaperVerdict, cells, judged
from reproduction.paper.lookup import Protocol, title_of
from reproduction.paper.numbers import UNDEFINED
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import rank_correlation, rank_interval
from reproduction.paper.values import RADII, printed

_SIGNIFICANT = 0.05


def kendall_and_angle(runs: Runs, protocol: Protocol) -> PaperVerdict:
    """By all models; one whose angle nothing bounds has 180 degrees, the largest."""
    found: dict[str, Any] = {}
    shown = []
    everywhere = cells(runs, "linf", protocol)
    for data in DATA:
        epsilon = RADII[data]["linf"][-1]
        own = [cell for cell in everywhere if (cell.data, cell.epsilon) == (data, epsilon)]
        theirs = [
            (values["kendall"], values["bound_degrees"])
            for model in METHODS
            if (values := printed("table4", f"{data}/linf/{epsilon}/ig", model))
        ]
        pairs = [(cell["kendall"], cell["aggregate_degrees"]) for cell in own]
        both = {"ours": rank_correlation(pairs), "paper": rank_correlation(theirs)}
        found[data] = both
        shown.append(
            f"{data}: {_rho(both['ours'])}{_unbounded(own)}, "
            f"by the paper's own numbers {_rho(both['paper'])}"
        )
    known = [both["ours"] for both in found.values() if both["ours"] is not None]
    claim = "Across models, a larger Kendall correlation goes with a smaller T_c"
    found_here = (_verdict(known), "; ".join(shown), found)
    ranked = sum(models for _, _, models in known)
    return judged("kendall-and-angle", claim, protocol, ranked, found_here)


def _verdict(known: Sequence[tuple[float, float, int]]) -> str:
    if any(rho >= 0 for rho, _, _ in known):
        return FAILS
    return HOLDS if all(p <= _SIGNIFICANT for _, p, _ in known) else UNDECIDED


def _rho(found: tuple[float, float, int] | None) -> str:
    if found is None:
        return "nothing to rank"
    ends = rank_interval(found[0], found[2])
    around = "" if ends is None else f", 95 % {ends[0]:.2f} to {ends[1]:.2f}"
    return f"rho = {found[0]:.2f} (p = {found[1]:.2g}{around}, {found[2]} models)"


def _unbounded(own: Sequence[Judged]) -> str:
    names = [title_of(cell.model) for cell in own if cell["aggregate_degrees"] >= UNDEFINED]
    return f" with {', '.join(names)} at 180°" if names else ""
