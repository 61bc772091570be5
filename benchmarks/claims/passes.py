"""Two passes of attacks put together: of each image the larger deviation.

The first pass was measured with the bounds and has a start in common with the attack that
seeds mean-value bounds. The second has none: its rows are kept apart and are joined here.
"""

from __future__ import annotations

from collections.abc import Sequence

from claims.plan import AGAIN
from claims.store import Row

_TAKEN = ("attack", "attack_by", "attack_label_kept")


def first(row: Row) -> bool:
    """Whether a row has bounds and the first pass."""
    return row["role"] in ("test", "calibration")


def second(row: Row) -> bool:
    """Whether a row has the second pass."""
    return bool(row["role"].startswith(AGAIN))


def cell(row: Row) -> tuple[str, str, float, float]:
    """Network, attribution and ball of a row that is not linear."""
    return (row["network"], row["attribution"], row["p"], row["epsilon"])


def joined(rows: Sequence[Row]) -> list[Row]:
    """The rows with bounds that were attacked twice; ``first_attack`` is what the first pass gave.

    Rows attacked once are left out: among images that were attacked twice they would make
    bounds look better, and a factor is good only for tests attacked as its own images were.
    """
    again = _again(rows)
    found = []
    for row in rows:
        if first(row) and _image(row) in again:
            other = again[_image(row)]
            better = other if other["attack"] > row["attack"] else row
            taken = {name: better[name] for name in _TAKEN}
            found.append({**row, **taken, "first_attack": row["attack"]})
    return found


def unfinished(rows: Sequence[Row]) -> list[Row]:
    """The rows with bounds that lack the second pass."""
    again = _again(rows)
    return [row for row in rows if first(row) and _image(row) not in again]


def _again(rows: Sequence[Row]) -> dict[tuple[object, ...], Row]:
    return {_image(row): row for row in rows if second(row)}


def _image(row: Row) -> tuple[object, ...]:
    return (*cell(row), row["role"].removeprefix(AGAIN), row["sample"])
