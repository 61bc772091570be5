"""What the paper's bound in l2 costs at each size of images, in products with the Jacobian."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from attribound.auditing import Cell, cells
from reproduction.paper.grid import Column, Columns, Grid, Line, Section
from reproduction.paper.items import COST, MODELS, Item, RunSpec
from reproduction.paper.numbers import measured
from reproduction.paper.runs import Runs
from reproduction.paper.statistics import Numbers, Values
from reproduction.paper.values import RADII

_TITLE = "What the bound in l2 costs"
_COLUMNS = (
    Column("features", "features", "features", digits=0),
    Column("models", "models", "models", digits=0),
    Column("products", "products", "products", digits=1),
    Column("most", "at most", "at most", digits=0),
    Column("share", "% of a dense Jacobian", r"\% of a dense Jacobian", digits=3),
    Column("gap", "ξ above / below", r"$\overline\xi/\underline\xi$"),
)
_NOTES = (
    (
        "Products with the Jacobian of integrated gradients or its transpose for one T_e = ξ ε, "
        "over the samples of all models; a dense Jacobian takes as many as there are features."
    ),
    "ξ above / below is how far the bound can be from the largest singular value, on average.",
)


def numbers(tables: list[pa.Table]) -> Numbers:
    """The cost of all samples in some runs; nothing without any."""
    if not tables:
        return {}
    rows = sum(table.num_rows for table in tables)
    fine = [measured(cell) for table in tables for cell in cells(table)]
    count = sum(map(len, fine))
    if not count:
        return {"n": 0.0, "errors": float(rows)}
    features = np.concatenate([cell.numbers("features") for cell in fine])
    products = _of_bounds(fine, "products")
    return {
        "n": float(count),
        "errors": float(rows - count),
        "models": float(len(tables)),
        "features": float(features.max()),
        "products": float(products.mean()),
        "most": float(products.max()),
        "share": float(100 * np.mean(products / features)),
        "gap": float(np.mean(_of_bounds(fine, "xi_upper") / _of_bounds(fine, "xi_lower"))),
    }


def _of_bounds(fine: list[Cell], field: str) -> Values:
    return np.concatenate([cell.bound("first_order", field) for cell in fine])


def grid(runs: Runs) -> Grid:
    """A row for each data set of the plan."""
    rows = tuple(row for data in runs.plan.data if (row := _row(runs, data)) is not None)
    block = Section("Integrated gradients", (Columns("", _COLUMNS),), rows)
    return Grid(COST, _TITLE, (block,), _NOTES)


def _row(runs: Runs, data: str) -> Line | None:
    """None if nothing is planned for this data."""
    specs = runs.plan.of_data(data, (COST,))
    if not specs:
        return None
    own = numbers([table for spec in specs if (table := runs.table(spec)) is not None])
    reasons = () if own else dict.fromkeys(runs.why(spec) for spec in specs)
    return Line(runs.plan.data[data].title, (own,), ({},), "; ".join(reasons))


def make(runs: Runs, folder: Path) -> list[Path]:
    """``cost`` as Markdown, LaTeX and JSON."""
    return grid(runs).write(folder)


def _needs() -> tuple[RunSpec, ...]:
    everywhere = (*RADII, "imagenet-flowers")
    return tuple(RunSpec(data, m, COST) for data in everywhere for m in MODELS)


ITEM = Item(COST, _TITLE, _needs(), make)
