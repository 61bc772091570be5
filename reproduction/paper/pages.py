"""Pages of the docs from the results that were stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from attribound import InputError
from reproduction.paper import cost, effort, holding, rules, verdicts
from reproduction.paper.figures.items import ITEMS as FIGURES
from reproduction.paper.grid import Grid
from reproduction.paper.tables import ITEMS

#: The tables that a reader meets first; all others have a page of their own.
FIRST = ("table3-strong", "table4-strong", holding.ITEM.name)


def first_markdown(results: Path) -> str:
    """The few tables beside the verdicts, and what was measured behind them.

    Raises:
        InputError: there is none.
    """
    return _markdown(results, [*FIRST, effort.ITEM.name])


def tables_markdown(results: Path) -> str:
    """All other tables by the paper's attacks and by ours, in its order; rules and costs last.

    Raises:
        InputError: there is none.
    """
    names = [name for item in ITEMS for name in (item, f"{item}-strong")]
    names += [*rules.ITEMS, cost.ITEM.name]
    return _markdown(results, [name for name in names if name not in FIRST])


def _markdown(results: Path, names: Sequence[str]) -> str:
    files = [results / f"{name}.json" for name in names]
    found = [Grid.of(json.loads(f.read_text(encoding="utf-8"))) for f in files if f.is_file()]
    if not found:
        raise _nothing(results)
    return "\n\n".join(grid.markdown() for grid in found)


def figures_markdown(results: Path, link: str) -> str:
    """Every stored picture under its title, in the paper's order.

    Args:
        results: where they are.
        link: the same folder, as seen from the page.

    Raises:
        InputError: there is none.
    """
    parts = []
    for name, item in FIGURES.items():
        number = f"{name[:-1].capitalize()} {name[-1]}"
        found = sorted(path.name for path in results.glob(f"{name}*.png"))
        if found:
            parts.append(f"**{number}: {item.title}**")
            parts += [f"![{number}, {Path(each).stem}]({link}/{each})" for each in found]
    if not parts:
        raise _nothing(results)
    return "\n\n".join(parts)


def verdicts_markdown(results: Path) -> str:
    """The stored verdicts on the paper's claims.

    Raises:
        InputError: there are none.
    """
    file = results / "verdicts.json"
    if not file.is_file():
        raise _nothing(results)
    return verdicts.markdown(json.loads(file.read_text(encoding="utf-8")))


def _nothing(results: Path) -> InputError:
    return InputError(
        str(results),
        expected="results of the paper",
        got="none",
        remedy="make them: python -m reproduction.paper all --out " + str(results),
    )
