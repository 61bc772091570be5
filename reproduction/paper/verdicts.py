"""The paper's claims, judged by our runs: under its attacks and under ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from reproduction.paper.angle_claim import kendall_and_angle
from reproduction.paper.grid import write_all
from reproduction.paper.items import DATA, DENSE, METHODS, MODELS, RECORDS, Item, RunSpec
from reproduction.paper.judging import (
    FAILS,
    HERE,
    HOLDS,
    UNDECIDED,
    PaperVerdict,
    attacks_behind,
    cells,
    joined,
    judged,
    mean,
    plain,
    records,
    shown_share,
)
from reproduction.paper.lookup import Protocol
from reproduction.paper.numbers import column
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import is_larger
from reproduction.paper.values import RADII, printed, radius

_NEGLIGIBLE = 0.1


def first_order_exceeded(runs: Runs, protocol: Protocol) -> PaperVerdict:
    """Table 3: few attacked attributions exceed T_e."""
    table = {
        share
        for data in DATA
        for epsilon in RADII[data]["l2"]
        for model in METHODS
        if (share := printed("table3", f"{data}/l2/{epsilon}/ig", model).get("exceeded"))
        is not None
    }
    most = max(table)
    found = [cell for cell in cells(runs, "l2", protocol) if cell["exceeded"] >= 0]
    shares = {cell.where: cell["exceeded"] for cell in found}
    over = [cell for cell in found if cell["exceeded"] > most]
    beyond_chance = [
        cell for cell in over if is_larger(cell["exceeded"] / 100, cell["n"], most / 100)
    ]
    worst = max(found, key=lambda cell: cell["exceeded"], default=None)
    text = (
        f"{len(over)} of {len(shares)} cells have more than {most:g} % that exceed it, "
        f"{len(beyond_chance)} beyond chance; on average {mean(shares.values()):.1f} %, at most "
        f"{'0 %' if worst is None else shown_share(worst, 'exceeded')}"
    )
    claim = f"In l2, at most {most:g} % of the attacked attributions exceed T_e"
    verdict = FAILS if beyond_chance else UNDECIDED if over else HOLDS
    found_here = (verdict, text, shares)
    return judged("first-order-exceeded", claim, protocol, len(shares), found_here)


def _nothing_exceeded(
    runs: Runs, protocol: Protocol, key: str, *norms: str
) -> tuple[int, tuple[str, str, Any]]:
    everywhere = [cell for norm in norms for cell in cells(runs, norm, protocol)]
    found = [cell for cell in everywhere if cell[key] >= 0]
    samples = sum(int(cell["n"]) for cell in found)
    beyond = [cell for cell in found if cell[key] > 0]
    exceeded = {cell.where: cell[key] for cell in beyond}
    text = f"never exceeded in {len(found)} cells"
    if beyond:
        worst = max(beyond, key=lambda cell: cell[key])
        text = (
            f"exceeded in {len(exceeded)} of {len(found)} cells, at worst for "
            f"{shown_share(worst, key)}"
        )
    return samples, (FAILS if exceeded else HERE, text, exceeded)


def adjusted_bounds_all(runs: Runs, protocol: Protocol) -> PaperVerdict:
    """Section 5.2: T'_e bounds all."""
    n, found_here = _nothing_exceeded(runs, protocol, "exceeded_adjusted", "l2")
    claim = "In l2, T'_e bounds all attacked attributions"
    return judged("adjusted-bounds-all", claim, protocol, n, found_here)


def cube_bounds_all(runs: Runs, protocol: Protocol) -> PaperVerdict:
    """Section 5.3: no outlier in the cube."""
    key = "exceeded_samples" if protocol == "paper" else "exceeded"
    n, found_here = _nothing_exceeded(runs, protocol, key, "linf")
    claim = "In l∞, no attacked attribution exceeds T_e"
    return judged("cube-bounds-all", claim, protocol, n, found_here)


def mean_value_bounds_all(runs: Runs) -> PaperVerdict:
    """Ours, and searched for: it may be missed, and then this says so."""
    n, found_here = _nothing_exceeded(runs, "strong", "exceeded_mean_value", "l2", "linf")
    claim = "(Not the paper's:) our mean-value bound bounds all attacked attributions"
    return judged("mean-value-bounds-all", claim, "strong", n, found_here)


def means_are_below(runs: Runs, protocol: Protocol) -> PaperVerdict:
    """The hats are below the bounds, for distances and angles."""
    exceeded, count = [], 0
    for norm, bound in (("l2", "adjusted"), ("linf", "bound")):
        for cell in cells(runs, norm, protocol):
            for attack, limit in (("attack", bound), ("attack_degrees", "bound_degrees")):
                if np.isnan(cell[attack]) or np.isnan(cell[limit]):
                    continue
                # Means of other samples cannot be compared with those of all.
                if limit == "bound_degrees" and cell["undefined"]:
                    continue
                count += 1
                if cell[attack] >= cell[limit]:
                    exceeded.append(f"{cell.where}, {attack}")
    text = f"{len(exceeded)} of {count} means exceed the bound" + (
        f": {exceeded[0]}" if exceeded else ""
    )
    claim = "For every data set, model and radius the mean T̂ is below the mean bound"
    found_here = (FAILS if exceeded else HOLDS, text, exceeded)
    return judged("means-are-below", claim, protocol, count, found_here)


def cube_to_ball(runs: Runs) -> PaperVerdict:
    """(T_inf / T_2)^2 at equal radii, which is sum |P| / lambda_max."""
    found: dict[str, Any] = {}
    everywhere = [cell for norm in ("l2", "linf") for cell in cells(runs, norm, "paper")]
    for data in DATA:
        theirs = _ratios(
            {
                (model, norm): (values["bound"], radius(epsilon))
                for norm, table in (("l2", "table3"), ("linf", "table4"))
                for epsilon in RADII[data][norm]
                for model in METHODS
                if (values := printed(table, f"{data}/{norm}/{epsilon}/ig", model))
            }
        )
        ours = _ratios(
            {
                (cell.model, cell.norm): (cell["bound"], radius(cell.epsilon))
                for cell in everywhere
                if cell.data == data
            }
        )
        found[data] = {"ours": ours, "paper": theirs}
    others = [
        f"{data}/{model} {value:.0f}"
        for data, both in found.items()
        for model, value in both["ours"].items()
        if not min(both["paper"].values()) <= value <= max(both["paper"].values())
    ]
    text = "; ".join(
        f"{data}: {_range(both['ours'])} (paper {_range(both['paper'])})"
        for data, both in found.items()
    )
    n = sum(len(both["ours"]) for both in found.values())
    claim = "(T_∞ / T_2)² at equal radii is in the range of the paper's tables"
    found_here = (FAILS if others else HOLDS, text, found)
    return judged("cube-to-ball", claim, "", n, found_here)


def diagonal(runs: Runs) -> PaperVerdict:
    """Appendix C: the gradient of IG is diagonally dominant, and so P."""
    rows = list(records(runs, "jacobian"))
    shares = {
        name: np.concatenate([column(each, name) for each in rows]) if rows else np.zeros(0)
        for name in ("j_dominant", "j_mass", "p_dominant", "p_largest", "p_mass")
    }
    n = len(shares["p_dominant"])
    means = {name: float(values.mean()) if n else 0.0 for name, values in shares.items()}
    whole = bool(n) and bool((shares["p_dominant"] == 1).all())
    text = (
        f"on average {means['p_dominant']:.0%} of the rows of P are dominated by the diagonal, "
        f"in {means['p_largest']:.0%} it is the largest entry, it has {means['p_mass']:.0%} of "
        f"the sum; of J {means['j_dominant']:.0%} of the rows and {means['j_mass']:.0%} of the sum "
        "(rows of black pixels have nothing but the diagonal)"
    )
    claim = "∇IG is diagonally dominant, and with it P"
    return judged("diagonal", claim, "", n, (HERE if whole else FAILS, text, means))


def tighter_than_corollary(runs: Runs) -> PaperVerdict:
    """Theorem 2 against Corollary 1 and our certificate."""
    rows = list(records(runs, "jacobian"))
    ratios = joined(rows, lambda t: column(t, "corollary_1") / column(t, "theorem_2"))
    certificate = joined(rows, lambda t: column(t, "theorem_2") / column(t, "certificate"))
    n, looser = len(ratios), int((ratios < 1).sum())
    text = (
        f"looser for {looser} of {n} samples; Corollary 1 is {mean(ratios):.2f} times Theorem 2 "
        f"on average, and Theorem 2 is {mean(certificate):.2f} times the dual certificate"
    )
    claim = "Theorem 2 is tighter than Corollary 1"
    found_here = (FAILS if looser else HERE, text, {"looser": looser, "mean": mean(ratios)})
    return judged("tighter-than-corollary", claim, "", n, found_here)


def negligible_remainder(runs: Runs, by: str) -> PaperVerdict:
    """Appendix B: eta is negligible; it is to be compared with the deviation."""
    rows = [each.filter(pc.equal(each["by"], by)) for each in records(runs, "eta")]
    of_deviation = joined(rows, lambda t: column(t, "eta") / column(t, "deviation"))
    of_norm = joined(rows, lambda t: column(t, "eta") / column(t, "attribution_norm"))
    n = len(of_deviation)
    median = float(np.median(of_deviation)) if n else 0.0
    share = float((of_deviation > _NEGLIGIBLE).mean()) if n else 0.0
    text = (
        f"the median of η / deviation is {median:.2f}, over {_NEGLIGIBLE} at {share:.0%} of {n} "
        f"points; of η / ‖g‖, which the paper looks at, {np.median(of_norm) if n else 0:.3f}"
    )
    claim = "What linearisation leaves out, η, is negligible"
    attacks = "paper" if by == "random" else "strong"
    values = {"median": median, "larger": share}
    found_here = (HOLDS if median <= _NEGLIGIBLE else FAILS, text, values)
    return judged("negligible-remainder", claim, attacks, n, found_here)


def verdicts(runs: Runs) -> list[PaperVerdict]:
    """All claims, in the paper's order, under its attacks and ours."""
    protocols: tuple[Protocol, ...] = ("paper", "strong")
    both = {
        first_order_exceeded: ("l2",),
        adjusted_bounds_all: ("l2",),
        cube_bounds_all: ("linf",),
        means_are_below: ("l2", "linf"),
        kendall_and_angle: ("linf",),
    }
    return [
        *(
            _counted(judge(runs, protocol), runs, protocol, *norms)
            for judge, norms in both.items()
            for protocol in protocols
        ),
        diagonal(runs),
        tighter_than_corollary(runs),
        *(negligible_remainder(runs, by) for by in ("random", "ascent")),
        cube_to_ball(runs),
        _counted(mean_value_bounds_all(runs), runs, "strong", "l2", "linf"),
    ]


def _counted(found: PaperVerdict, runs: Runs, protocol: Protocol, *norms: str) -> PaperVerdict:
    """With the attacks behind it."""
    return replace(found, made=attacks_behind(runs, protocol, *norms)) if found.n else found


def markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """A table of claims; ``found`` are verdicts as ``verdicts.json`` has them."""
    attacks = {"paper": "the paper's", "strong": "ours", "": "-"}
    rows = (
        f"| {each['claim']} | {attacks[each['attacks']]} | **{each['verdict']}** | {each['n']} | "
        f"{each['made'] or '-'} | {each['text']} |"
        for each in found
    )
    head = [
        "| claim | attacks | verdict | n | attacks made | numbers |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def make(runs: Runs, folder: Path) -> list[Path]:
    """``verdicts.md`` and ``verdicts.json``."""
    every = [plain(asdict(each)) for each in verdicts(runs)]
    document = json.dumps(every, indent=1, allow_nan=False, ensure_ascii=False)
    return write_all(folder, {"verdicts.md": markdown(every), "verdicts.json": document})


def _needs() -> tuple[RunSpec, ...]:
    kinds = ("paper", "strong", DENSE, *RECORDS)
    return tuple(RunSpec(data, m, kind) for data in RADII for m in MODELS for kind in kinds)


ITEM = Item("verdicts", "The paper's claims and what became of them", _needs(), make)


def _ratios(bounds: Mapping[tuple[str, str], tuple[float, float]]) -> dict[str, float]:
    """Of each model with both norms; radii cancel, for T is linear in them."""
    slopes = {key: bound / epsilon for key, (bound, epsilon) in bounds.items()}
    models = dict.fromkeys(model for model, _ in slopes)
    return {
        model: (slopes[model, "linf"] / slopes[model, "l2"]) ** 2
        for model in models
        if (model, "linf") in slopes and (model, "l2") in slopes
    }


def _range(values: Mapping[str, float]) -> str:
    if not values:
        return "none"
    return f"{min(values.values()):.0f}-{max(values.values()):.0f}"
