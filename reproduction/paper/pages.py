"""Pages of the docs from the results that were stored."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attribound import InputError
from reproduction.paper import cost, effort, holding, rules, verdicts
from reproduction.paper.figures.items import ITEMS as FIGURES
from reproduction.paper.grid import Grid
from reproduction.paper.judging import FAILS, HERE, HOLDS, UNDECIDED, UNKNOWN
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs
from reproduction.paper.tables import ITEMS

#: The tables that a reader meets first; all others have a page of their own.
FIRST = ("table3-strong", "table4-strong", holding.ITEM.name)

#: What follows from the verdict on a claim; what was not decided follows from nothing.
_BELIEVED: dict[str, dict[str, str]] = {
    "first-order-exceeded": {
        FAILS: "T_e in l2 is an estimate of first order, and attacks exceed it more often than the "
        "paper's did",
        HOLDS: "T_e in l2 was exceeded no more often than the paper says",
        UNDECIDED: "T_e in l2 was exceeded more often than the paper says; with so few samples "
        "in a cell no single one is beyond chance",
    },
    "adjusted-bounds-all": {
        FAILS: "T'_e does not bound all: one counterexample is enough, and there is one",
        HERE: "nothing was found beyond T'_e, which is no proof",
    },
    "cube-bounds-all": {
        FAILS: "T_e in l∞ does not bound all either",
        HERE: "nothing was found beyond T_e in l∞, which is no proof",
    },
    "negligible-remainder": {
        FAILS: "what linearisation leaves out is not negligible beside what is bounded",
        HOLDS: "what linearisation leaves out was small at the points looked at",
    },
    "kendall-and-angle": {
        FAILS: "T_c does not rank models as Kendall's correlation does",
        HOLDS: "models with a smaller T_c do keep the order of their scores better",
        UNDECIDED: "that T_c ranks models as Kendall's correlation does is undecided",
    },
    "mean-value-bounds-all": {
        FAILS: "our mean-value bound, whose supremum is searched, was exceeded, too",
        HERE: "our mean-value bound was not exceeded; the table of claims that hold says what it "
        "costs",
    },
}


def page_parts(stored: Path, pictures: Path, link: str) -> dict[str, str]:
    """The generated parts of the pages, from what is stored alone; none where nothing is.

    Args:
        stored: what was measured.
        pictures: where those lie that a page shows.
        link: the same folder, as seen from the page.
    """
    if not any(stored.glob("*.parquet")):
        return {}
    runs = Runs(Plan.read(), stored, measuring=False)
    tables = (*ITEMS.values(), holding.ITEM, *rules.ITEMS.values(), cost.ITEM, effort.ITEM)
    with tempfile.TemporaryDirectory() as place:
        results = Path(place)
        for item in (*tables, verdicts.ITEM):
            item.make(runs, results)
        judged = json.loads((results / "verdicts.json").read_text(encoding="utf-8"))
        made = {
            "verdicts": verdicts_markdown(results),
            "closing": closing_markdown(judged),
            "first tables": first_markdown(results),
            "tables": tables_markdown(results),
        }
    shown = {"figures": figures_markdown(pictures, link)} if pictures.is_dir() else {}
    return made | shown


def closing_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """What a reader of the paper should now believe: a sentence for each claim with a verdict.

    By our attacks where these were made, by the paper's elsewhere.
    """
    made = max(each["made"] for each in found)
    first = (
        f"Behind this are {made:,} attacks; the paper speaks of over 10 million. One "
        "counterexample refutes a bound at any number of samples; shares, means and orders of "
        "models are as sure as their intervals and n, and no surer."
    )
    lines = [first, ""]
    for name, sentences in _BELIEVED.items():
        own = [each for each in found if each["name"] == name and each["verdict"] != UNKNOWN]
        if own:
            last = own[-1]  # ours come after the paper's
            said = sentences[last["verdict"]]
            lines.append(f"- {said[0].upper()}{said[1:]} (n = {last['n']}): {last['text']}.")
    open_ones = dict.fromkeys(each["claim"] for each in found if each["verdict"] == UNKNOWN)
    decided = {each["claim"] for each in found if each["verdict"] != UNKNOWN}
    left = [claim for claim in open_ones if claim not in decided]
    if left:
        lines.append(f"- Not measured yet, so nothing is said here: {'; '.join(left)}.")
    return "\n".join(lines)


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
