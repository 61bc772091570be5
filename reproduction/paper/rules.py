"""How far the rules for integrated gradients are from the integral, and what cheaper ones lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribound.auditing import Cell, cells
from reproduction.paper.grid import Column, Columns, Grid, Line, Section
from reproduction.paper.items import CHEAPER, MODELS, QUADRATURE, Item, RunSpec
from reproduction.paper.lookup import title_of
from reproduction.paper.numbers import column, measured
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import Numbers, Values, known, largest, with_error
from reproduction.paper.values import RADII

_RULES = "How far rules for integrated gradients are from the integral"
_LOST = "What an attack loses that climbs a cheaper rule"
_BY_RULE = (
    "Per cent of |g - g_400| / |g_400|, g_400 by 400 midpoints: the median over samples, and the "
    "largest in brackets. The first of each block is the rule of the tables."
)
_BY_ATTACK = (
    "Two ascents in the smallest balls, both judged on the map: 16 steps and 3 random starts on "
    "the cheaper rule, 6 steps from the input on the map itself. Ratio of what they find, "
    "cheaper / direct, and the share of samples of which the cheaper found less; then of the "
    "seconds that they took, both norms together."
)


def rule_numbers(table: pa.Table, rules: tuple[str, ...]) -> Numbers:
    """The median and the largest error of each rule, in per cent."""
    found: Numbers = {}
    for i, rule in enumerate(rules):
        errors = 100 * column(table.filter(pc.equal(table["rule"], rule)), "error")
        if len(errors):
            found |= {"n": float(len(errors)), f"rule{i}": float(np.median(errors))}
            found[f"most{i}"] = largest(errors)
    return found


def lost(table: pa.Table) -> Numbers:
    """Cheaper by direct, in each norm, and the same of the time in all."""
    found: Numbers = {}
    spent = dict.fromkeys(("cheap", "direct"), 0.0)
    for cell in map(measured, cells(table)):
        ratio = _ratio(cell)
        for attack in spent:
            spent[attack] += float(np.nansum(cell.attack(attack, "seconds")))
        found["n"] = float(len(known(ratio)))
        found |= with_error(cell.ball, ratio)
        if len(known(ratio)):
            found[f"{cell.ball}_less"] = 100 * float((known(ratio) < 1).mean())
            found[f"{cell.ball}_least"] = float(known(ratio).min())
            found[f"{cell.ball}_most"] = float(known(ratio).max())
    if spent["direct"]:
        found["time"] = spent["cheap"] / spent["direct"]
    return found


def _ratio(cell: Cell) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        return cell.attack("cheap") / cell.attack("direct")


def rules_grid(runs: Runs) -> Grid:
    """A block for each data set, with the rules that were tried there."""
    blocks = []
    for data, plan in runs.plan.data.items():
        specs = runs.plan.of_data(data, (QUADRATURE,))
        if not specs:
            continue
        settings = runs.plan.settings(specs[0])
        names = tuple(each.name for each in settings.attributions)
        columns = tuple(Column(f"rule{i}", n, n, 1, f"most{i}") for i, n in enumerate(names))
        rows = tuple(_row(runs, spec, names) for spec in specs)
        blocks.append(Section(plan.title, (Columns("", columns),), rows))
    return Grid("rules", _RULES, tuple(blocks), (_BY_RULE,))


def _row(runs: Runs, spec: RunSpec, names: tuple[str, ...]) -> Line:
    table = runs.table(spec)
    own = {} if table is None else rule_numbers(table, names)
    return Line(title_of(spec.model), (own,), ({},), "" if own else runs.why(spec))


def lost_grid(runs: Runs) -> Grid:
    """A row for each model."""
    columns = (
        Column("l2", "l2", r"$\ell_2$", 3, "l2_less"),
        Column("linf", "l∞", r"$\ell_\infty$", 3, "linf_less"),
        Column("time", "time", "time", 2),
    )
    blocks = []
    for data, plan in runs.plan.data.items():
        rows = []
        for spec in runs.plan.of_data(data, (CHEAPER,)):
            table = runs.table(spec)
            own = {} if table is None else lost(table)
            rows.append(Line(title_of(spec.model), (own,), ({},), "" if own else runs.why(spec)))
        if rows:
            title = f"{plan.title}: {plan.climbed} for {plan.attribution}"
            blocks.append(Section(title, (Columns("", columns),), tuple(rows)))
    every = [own for block in blocks for row in block.rows for own in row.ours if own.get("n")]
    notes = (_BY_ATTACK, _furthest(every)) if every else (_BY_ATTACK,)
    return Grid(CHEAPER, _LOST, tuple(blocks), notes)


def _furthest(rows: list[Numbers]) -> str:
    """In a sentence, how far apart they were at most, either way."""

    def all_of(end: str) -> list[float]:
        keys = [f"{norm}_{end}" for norm in ("l2", "linf")]
        return [value for row in rows for key in keys if (value := row.get(key)) is not None]

    samples = sum(row["n"] or 0 for row in rows)
    return (
        f"Of {samples:.0f} samples the one on the map itself went at most "
        f"{1 / min(all_of('least')):.1f} times as far as the other, and that one at most "
        f"{max(all_of('most')):.2f} times as far as it."
    )


def _needs(part: str) -> tuple[RunSpec, ...]:
    return tuple(RunSpec(data, model, part) for data in RADII for model in MODELS)


def _make_rules(runs: Runs, folder: Path) -> list[Path]:
    return rules_grid(runs).write(folder)


def _make_lost(runs: Runs, folder: Path) -> list[Path]:
    return lost_grid(runs).write(folder)


ITEMS: dict[str, Item] = {
    "rules": Item("rules", _RULES, _needs(QUADRATURE), _make_rules),
    CHEAPER: Item(CHEAPER, _LOST, _needs(CHEAPER), _make_lost),
}
