"""The same networks under the claims that hold: what the paper's bound would have had to be."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from attribound.auditing import Cell
from reproduction.paper.grid import Column, Columns, Grid, Line, Section
from reproduction.paper.items import CERTIFIED, DENSE, MODELS, SMOOTHED, Item, RunSpec
from reproduction.paper.lookup import Place, models_of, numbers, title_of
from reproduction.paper.notes import NORMS
from reproduction.paper.numbers import cell_of, measured
from reproduction.paper.runs import UNPLANNED, Runs
from reproduction.paper.statistics import Numbers, Values, share, with_error
from reproduction.paper.values import RADII, radius

_TITLE = "The same networks under claims that hold"
_ALPHA = 0.1
_COLUMNS = (
    Column("attack", "furthest attack", "attack"),
    Column("bound", "T_e", "$T_e$", bracket="exceeded"),
    Column("mean_value", "mean-value", "mean-value", bracket="exceeded_mean_value"),
    Column("mean_value_factor", "/ T_e", "/ $T_e$", 2),
    Column("calibrated", "calibrated", "calibrated", bracket="exceeded_calibrated"),
    Column("calibrated_factor", "/ T_e", "/ $T_e$", 2),
    Column("certified", "certified", "certified", bracket="exceeded_certified"),
    Column("averaged", "smoothed °", "smoothed $^\\circ$", 1, bracket="exceeded_averaged"),
    Column("similarity", "alike", "alike", 2),
)
_NOTES = (
    (
        "Brackets: the share of samples beyond the bound before them, by the furthest of all "
        "attacks, with Wilson's 95 % interval."
    ),
    (
        "mean-value: the theorem without linearity, its supremum searched. calibrated: T_e times a "
        f"factor that the attacks on the first half of the samples give, for {1 - _ALPHA:.0%} of "
        "new ones, shown on the second half. certified: proved, without linearity and search; no "
        "number where it does not apply."
    ),
    (
        "smoothed °: certified (smoothed), the angle by which no perturbation turns the *averaged* "
        "map of the network (noise .25, 1,000 draws, alpha .001, by the cheaper rule); alike: the "
        "cosine of that map with the map at the input, of which it says nothing itself. Only in l2."
    ),
    "“/ T_e” is how many times T_e that is, on average of the samples that have both.",
    "T_e in l∞ is the dual certificate here, of which there are more samples than of Theorem 2.",
)


def calibrated(bound: Values, attack: Values) -> Numbers:
    """Split conformal: the first half gives the factor, the second is held against it.

    Nothing is said where the first half is too small for a finite factor.
    """
    both = ~np.isnan(bound) & ~np.isnan(attack) & (bound > 0)
    scores, bounds = (attack[both] / bound[both]), bound[both]
    half = len(scores) // 2
    factor = conformal(scores[:half])
    if not math.isfinite(factor):
        return {}
    value = factor * bounds[half:]
    return {
        **with_error("calibrated", value),
        "calibrated_factor": factor,
        **share("exceeded_calibrated", (scores[half:] > factor).sum(), len(scores) - half),
    }


def conformal(scores: Values) -> float:
    """The factor that a new score stays below with 90 %, as ``ab.calibrate`` has it.

    The k-th smallest, k = (n + 1)(1 - alpha) rounded up; infinite for too few.

    >>> conformal(np.arange(1.0, 10.0)), conformal(np.arange(1.0, 9.0))
    (9.0, inf)
    """
    k = math.ceil((len(scores) + 1) * (1 - _ALPHA) - 1e-9)
    return float(np.sort(scores)[k - 1]) if k <= len(scores) else math.inf


def _certified(runs: Runs, place: Place, model: str, attack: dict[int, float]) -> Numbers:
    table = runs.table(RunSpec(place.data, model, CERTIFIED))
    cell = None if table is None else cell_of(table, "ig", place.norm, radius(place.epsilon))
    if cell is None:
        return {}
    fine = measured(cell)
    value = fine.bound("certified")
    found = np.array([attack.get(sample, np.nan) for sample in fine.samples])
    both = ~np.isnan(value) & ~np.isnan(found)
    return {
        **with_error("certified", value),
        **share("exceeded_certified", (found > value)[both].sum(), both.sum()),
    }


def _smoothed(runs: Runs, place: Place, model: str) -> Numbers:
    table = runs.table(RunSpec(place.data, model, SMOOTHED))
    cell = None if table is None else cell_of(table, "ig", place.norm, radius(place.epsilon))
    if cell is None:
        return {}
    fine = measured(cell)
    turned = fine.bound("smoothed", "degrees_exceeded")  # by more than rounding
    attacked = ~np.isnan(turned)
    beyond = fine.exceeded("smoothed") | (turned == 1)
    return {
        **with_error("averaged", fine.bound("smoothed", "degrees")),
        **with_error("similarity", fine.bound("smoothed", "similarity")),
        **share("exceeded_averaged", beyond[attacked].sum(), attacked.sum()),
    }


def claim_numbers(runs: Runs, place: Place, model: str) -> tuple[Numbers, str]:
    """All claims in one cell, against the furthest attack of each sample."""
    own, reason = numbers(runs, place, model, "strong", label=False)
    strong, paper = (runs.table(place.spec(model, p)) for p in ("strong", "paper"))
    if not own or strong is None:
        return own, reason
    ball = ("ig", place.norm, radius(place.epsilon))
    cells = [None if table is None else cell_of(table, *ball) for table in (strong, paper)]
    attack = _furthest([cell for cell in cells if cell is not None])
    bound = {} if cells[1] is None else _by_sample(cells[1], cells[1].bound("first_order"))
    both = sorted(attack.keys() & bound.keys())
    pairs = np.array([[bound[i], attack[i]] for i in both]).reshape(-1, 2)
    searched = {} if cells[0] is None else _by_sample(cells[0], cells[0].bound("mean_value"))
    factors = np.array([searched[i] / bound[i] for i in searched.keys() & bound.keys()])
    found: Numbers = {
        **own,
        **calibrated(pairs[:, 0], pairs[:, 1]),
        **_certified(runs, place, model, attack),
        **_smoothed(runs, place, model),
        **with_error("bound", pairs[:, 0]),
        **share("exceeded", (pairs[:, 1] > pairs[:, 0]).sum(), len(pairs)),
        **with_error("mean_value_factor", factors),
    }
    return found, ""


def _furthest(cells: list[Cell]) -> dict[int, float]:
    found: dict[int, float] = {}
    for cell in map(measured, cells):
        for sample, value in _by_sample(cell, cell.strongest("deviation")).items():
            found[sample] = max(value, found.get(sample, 0.0))
    return found


def _by_sample(cell: Cell, values: Values) -> dict[int, float]:
    pairs = zip(cell.samples, values, strict=True)
    return {sample: float(value) for sample, value in pairs if not np.isnan(value)}


def grid(runs: Runs) -> Grid:
    """A block for each data set and norm, at the radii of Tables 3 and 4."""
    blocks = []
    for data, radii in RADII.items():
        if data not in runs.plan.data:
            continue
        for norm, name in NORMS.items():
            epsilon = radii[norm][0 if norm == "l2" else -1]
            rows = []
            for model in models_of(runs.plan, data):
                own, reason = claim_numbers(runs, Place(data, norm, epsilon), model)
                if own or reason != UNPLANNED:
                    rows.append(Line(title_of(model), (own,), ({},), reason))
            title = f"{runs.plan.data[data].title}, {name}, ε = {epsilon}"
            blocks.append(Section(title, (Columns("", _COLUMNS),), tuple(rows)))
    return Grid("holding", _TITLE, tuple(blocks), _NOTES)


def make(runs: Runs, folder: Path) -> list[Path]:
    """``holding`` as Markdown, LaTeX and JSON."""
    return grid(runs).write(folder)


_NEEDS = tuple(
    RunSpec(data, model, part)
    for data in RADII
    for model in MODELS
    for part in ("paper", "strong", DENSE, CERTIFIED, SMOOTHED)
)
ITEM = Item("holding", _TITLE, _NEEDS, make)
