"""The smallest run of the paper, held against the relations in ``expectation.json``.

``python -m reproduction.paper.small [FOLDER]``, a minute or two; exit code 1 if a relation does not
hold. Relations are orderings, verdicts and zero violations, not digits: those differ between
machines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reproduction.paper.judging import cells
from reproduction.paper.plan import Plan
from reproduction.paper.runs import Runs
from reproduction.paper.tables import ITEMS as TABLES
from reproduction.paper.verdicts import ITEM as VERDICTS
from reproduction.paper.verdicts import verdicts

HERE = Path(__file__).parent
EXPECTATION = HERE / "expectation.json"


def observed(runs: Runs) -> dict[str, Any]:
    """Verdicts by name and attacks, and the numbers of every cell."""
    return {
        "verdicts": {f"{v.name} {v.attacks}".strip(): v.verdict for v in verdicts(runs)},
        "numbers": {
            f"{cell.data} {cell.model} {norm} {cell.epsilon} {protocol}": dict(cell.numbers)
            for protocol in ("paper", "strong")
            for norm in ("l2", "linf")
            for cell in cells(runs, norm, protocol)
        },
    }


def violated(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Every expected relation that is not there, in words."""
    for name, verdict in expected["verdicts"].items():
        if found["verdicts"].get(name) != verdict:
            yield f"{name}: {found['verdicts'].get(name)}, expected {verdict}"
    numbers = found["numbers"]
    for small, large in expected["below"]:
        values = [numbers.get(where, {}).get(key) for where, key in (small, large)]
        if None in values or not values[0] < values[1]:
            yield f"expected {small} < {large}, found {values[0]} and {values[1]}"
    for where, key in expected["zero"]:
        value = numbers.get(where, {}).get(key)
        if value != 0:
            yield f"expected 0 at {where} {key}, found {value}"


def main(folder: Path) -> int:
    """Run, compare, print."""
    runs = Runs(Plan.read(HERE / "small.toml"), folder / "stored")
    items = [*TABLES.values(), VERDICTS]
    runs.complete((spec for item in items for spec in item.needs), say=_say)
    for item in items:
        item.make(runs, folder / "results")
    faults = list(violated(json.loads(EXPECTATION.read_text()), observed(runs)))
    _say("\n".join(faults) or "all relations hold")
    return 1 if faults else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(Path(place)))
