"""The paper's figures by name, each from the runs of a plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from attribound import AttriboundError
from attribound.basics import StorageError
from reproduction.paper.figures.drawing import plain, save, title_of
from reproduction.paper.figures.examples import choose, draw_examples
from reproduction.paper.figures.gaps import Gaps, draw_gaps, gaps_of
from reproduction.paper.figures.heatmaps import draw_first, draw_full
from reproduction.paper.figures.illustration import draw_illustration, standard
from reproduction.paper.figures.jacobian import DenseJacobian, stored_jacobian
from reproduction.paper.figures.kendall import DataSet, draw_kendall
from reproduction.paper.figures.remainder import draw_remainders
from reproduction.paper.items import DATA, METHODS, MODELS, Item, RunSpec
from reproduction.paper.lookup import Place, models_of, no_radius, numbers
from reproduction.paper.numbers import cell_of
from reproduction.paper.runs import NOT_YET, UNPLANNED, Runs
from reproduction.paper.statistics import Numbers
from reproduction.paper.values import RADII, radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORMS = {"l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
#: Whose Jacobian is drawn, which the paper does not say: the first of these that is there.
_DRAWN = ("at", "trades-igr", "trades", "ce")
_CLOSE = 1e-9


def examples(runs: Runs, data: str) -> Figure:
    """Table 1 for one data set, in the largest cube."""
    ball = RADII[data]["linf"][-1]
    maps: dict[str, pa.Table] = {}
    missing: dict[str, str] = {}
    for model in models_of(runs.plan, data):
        specs = [RunSpec(data, model, kind) for kind in ("paper", "methods")]
        found = [table for table in map(runs.maps, specs) if table is not None]
        kept = [_in_ball(table, "linf", radius(ball)) for table in found]
        if any(table.num_rows for table in kept):
            maps[model] = pa.concat_tables(kept)
        else:
            _leave_out(missing, model, runs.why(specs[0]))
    title = f"{DATA[data]}: attributions under attack, {NORMS['linf']}, ε = {ball}"
    return draw_examples(title, choose(maps), missing)


def kendall(runs: Runs) -> Figure:
    """Figure 2, at the radii of Table 4."""
    sets = []
    for data, title in DATA.items():
        ball = RADII[data]["linf"][-1]
        found: dict[str, Numbers] = {}
        missing: dict[str, str] = {}
        for model in models_of(runs.plan, data):
            own, reason = numbers(runs, Place(data, "linf", ball), model, "paper")
            if own:
                found[model] = own
            else:
                _leave_out(missing, model, reason)
        sets.append(DataSet(title, ball, found, missing))
    return draw_kendall(sets)


def remainders(runs: Runs, data: str) -> Figure:
    """Eta of every model on one data set."""
    found: dict[str, pa.Table] = {}
    missing: dict[str, str] = {}
    for model in models_of(runs.plan, data):
        spec = RunSpec(data, model, "eta")
        table = runs.table(spec)
        if table is None:
            _leave_out(missing, model, runs.why(spec))
        else:
            found[model] = table
    return draw_remainders(f"{DATA[data]}, integrated gradients", found, missing)


def gaps(runs: Runs, data: str, norm: str) -> Figure:
    """Gaps of every model on one data set, at the largest radius."""
    ball = RADII[data][norm][-1]
    found: dict[str, Gaps] = {}
    missing: dict[str, str] = {}
    for model in models_of(runs.plan, data):
        paper, strong = (runs.table(RunSpec(data, model, kind)) for kind in ("paper", "strong"))
        if paper is None:
            _leave_out(missing, model, runs.why(RunSpec(data, model, "paper")))
            continue
        place = ("ig", norm, radius(ball))
        theirs = cell_of(paper, *place)
        if theirs is None:
            _leave_out(missing, model, no_radius(ball))
            continue
        found[model] = gaps_of(theirs, None if strong is None else cell_of(strong, *place))
    return draw_gaps(f"{DATA[data]}, {NORMS[norm]}, ε = {ball}", found, missing)


def jacobian(runs: Runs, data: str) -> tuple[str, DenseJacobian | None]:
    """The Jacobian of one sample, measured if it is not stored, under its title.

    Without any, None under the reason.
    """
    reasons = []
    for model in _DRAWN:
        spec = RunSpec(data, model, "jacobian")
        if not runs.plan.has(spec):
            continue
        path = runs.folder / "heatmaps" / data / f"{model}.parquet"
        if not (runs.measuring or path.is_file()):
            reasons.append(f"{title_of(model)} ({plain(NOT_YET)})")
            continue
        try:
            found = stored_jacobian(runs.plan.settings(spec, most=1), path)
        except StorageError:
            raise
        except AttriboundError:  # the others can still be drawn
            reasons.append(f"{title_of(model)} ({plain(runs.why(spec))})")
        else:
            return f"{DATA[data]}, {title_of(model)}", found
    return f"{DATA[data]}: {', '.join(reasons) or UNPLANNED}", None


def first_entries(runs: Runs, *data: str) -> Figure:
    """Corners of the Jacobians of some data sets."""
    found = dict(jacobian(runs, each) for each in data)
    missing = "; ".join(title for title, each in found.items() if each is None)
    there = {title: each for title, each in found.items() if each is not None}
    return draw_first(there, f"Left out: {missing}" if missing else "")


def full(runs: Runs, data: str) -> Figure:
    """The whole Jacobian of one data set."""
    title, found = jacobian(runs, data)
    return draw_first({}, title) if found is None else draw_full(title, found)


def _in_ball(maps: pa.Table, norm: str, epsilon: float) -> pa.Table:
    near = pc.less(pc.abs(pc.subtract(maps["epsilon"], epsilon)), _CLOSE)
    return maps.filter(pc.and_(pc.equal(maps["ball"], norm), near))


def _leave_out(missing: dict[str, str], model: str, reason: str) -> None:
    """Say it of what the paper has or the plan promises."""
    if reason != UNPLANNED or model in METHODS:
        missing[model] = reason


def _needs(*kinds: str) -> tuple[RunSpec, ...]:
    return tuple(RunSpec(data, model, kind) for data in DATA for model in MODELS for kind in kinds)


def _item(
    name: str, title: str, kinds: tuple[str, ...], parts: dict[str, Callable[[Runs], Figure]]
) -> Item:
    """An item of several figures, by the end of their file's name."""

    def make(runs: Runs, folder: Path) -> list[Path]:
        drawn = ((end, draw(runs)) for end, draw in parts.items())
        return [path for end, figure in drawn for path in save(figure, folder, f"{name}{end}")]

    return Item(name, title, _needs(*kinds), make)


def _each(draw: Callable[..., Figure]) -> dict[str, Callable[[Runs], Figure]]:
    """The same figure of every data set."""
    return {f"-{data}": partial(draw, data=data) for data in DATA}


_ALL = (
    _item("table1", "Inputs and attributions, attacked", ("paper", "methods"), _each(examples)),
    _item(
        "figure1",
        "The bound in two dimensions, and the Jacobian of IG",
        (),
        {
            "a": lambda runs: draw_illustration(standard()),  # noqa: ARG005
            "b": lambda runs: first_entries(runs, "cifar10"),
        },
    ),
    _item("figure2", "Kendall's correlation against T_c", ("paper",), {"": kendall}),
    _item("figure3", "Eta against the size of the perturbation", ("eta",), _each(remainders)),
    _item(
        "figure4",
        "First 100 entries of the Jacobian",
        (),
        {"": lambda runs: first_entries(runs, "mnist", "fashion-mnist")},
    ),
    _item("figure5", "The whole Jacobian, MNIST", (), {"": partial(full, data="mnist")}),
    _item(
        "figure6",
        "The whole Jacobian, Fashion-MNIST",
        (),
        {"": partial(full, data="fashion-mnist")},
    ),
    _item("figure7", "The whole Jacobian, CIFAR-10", (), {"": partial(full, data="cifar10")}),
    _item(
        "figure8",
        "Gaps between bounds and deviations",
        ("paper", "strong"),
        {f"-{data}-{norm}": partial(gaps, data=data, norm=norm) for data in DATA for norm in NORMS},
    ),
)
#: Jacobians are measured where a heatmap first needs them; all else comes from runs.
ITEMS: dict[str, Item] = {item.name: item for item in _ALL}
