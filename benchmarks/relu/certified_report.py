"""What certificates of ReLU networks are worth, from the stored rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from attribound.basics.tables import render

USEFUL = 30.0  # degrees
_KEY = ("network", "attribution", "ball", "epsilon", "dtype")
_TITLE = """\
Certificates of the networks themselves, medians: T / attack at the root and at the end (of
examples that an attack moved), plain intervals / T, shares that are exact and below 30 degrees (T,
attack), of the top 4 scores those proved to stay / left by the attacks (means, where it was asked),
neurons that may switch, nodes, seconds of one core, memory at most (MB): what the process had had
by then, of the example where that was least"""
_HEADER = (
    *("n", "root", "T", "intervals", "exact", "T<30", "attack<30"),
    *("stay", "neurons", "nodes", "s", "MB"),
)
_NOTHING = 1e-4  # of the attribution: less than that has not moved


def certificates_report(rows: pa.Table, asked: Iterable[tuple[Any, ...]] = ()) -> str:
    """One line a cell; medians, shares, and whether an attack ever went further.

    ``asked``: network, attribution, ball and radius of cells of which it is said if they lack.
    """
    if not rows.num_rows:
        return "No certificate of a ReLU network is measured yet."
    listed = rows.to_pylist()
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in listed:
        cells.setdefault(tuple(row[name] for name in _KEY), []).append(row)
    measured = [row for row in listed if not _refused(row)]
    over = sum(max(row["attack"], row["attained"]) > row["value"] for row in measured)
    names = dict.fromkeys(key[0] for key in cells)
    tables = [_table(name, {k: own for k, own in cells.items() if k[0] == name}) for name in names]
    told = f"Attacks that went further than a certificate: {over} of {len(measured)}."
    lacking: dict[str, list[str]] = {}
    for each in asked:
        if each not in {key[:4] for key in cells}:
            lacking.setdefault(f"{each[0]}, {each[1]}", []).append(f"{each[2]} {each[3]:g}")
    notes = [f"{name}: not measured yet: {', '.join(own)}" for name, own in lacking.items()]
    return "\n\n".join([_TITLE, *tables, *(["\n".join(notes)] if notes else []), told])


def _table(name: str, cells: dict[tuple[Any, ...], list[dict[str, Any]]]) -> str:
    kinds = dict.fromkeys(key[1] for key in cells)
    tables = []
    for kind in kinds:
        own = sorted((key for key in cells if key[1] == kind), key=lambda key: (key[4], *key[2:4]))
        there = {key: [row for row in cells[key] if not _refused(row)] for key in own}
        lines = [[*map(_cell, key[2:]), *_figures(some)] for key, some in there.items() if some]
        tables += [render(f"{name}, {kind}", [*_KEY[2:], *_HEADER], lines)] if lines else []
        notes = [_note(key, cells[key]) for key in own if any(map(_refused, cells[key]))]
        tables += ["\n".join(notes)] if notes else []
    return "\n\n".join(tables)


def _refused(row: dict[str, Any]) -> bool:
    """Whether there was no certificate within the limit of memory."""
    return not row["nodes"]


def _note(key: tuple[Any, ...], own: Sequence[dict[str, Any]]) -> str:
    """Where there is no number, and why."""
    name, kind, ball, epsilon, _ = key
    reasons = [row["status"] for row in own if _refused(row)]
    return f"{name}, {kind}, {ball} {epsilon:g}: {len(reasons)} of {len(own)} {min(reasons)}"


def _cell(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value


def _figures(own: Sequence[dict[str, Any]]) -> list[object]:
    def column(name: str) -> np.ndarray[Any, Any]:
        return np.array([np.nan if row[name] is None else float(row[name]) for row in own])

    attack = np.maximum(column("attack"), column("attained"))
    value, root, length = column("value"), column("root"), column("norm")
    moved = attack > _NOTHING * length
    plain = column("intervals") / np.maximum(value, _NOTHING * length)

    def ratio(bound: np.ndarray[Any, Any]) -> str:
        return f"{np.median(bound[moved] / attack[moved]):.2f}" if moved.any() else "-"

    sine = np.sin(np.radians(USEFUL))
    return [
        len(own),
        ratio(root),
        ratio(value),
        "-" if np.isnan(plain).all() else f"{np.nanmedian(plain):.1f}",
        f"{column('exact').mean():.0%}",
        f"{(column('degrees') < USEFUL).mean():.0%}",
        f"{(attack < sine * length).mean():.0%}",
        "-" if np.isnan(column("stay")).all() else _means(column("stay"), column("left")),
        f"{np.median(column('neurons')):.0f}",
        f"{np.median(column('nodes')):.0f}",
        f"{np.median(column('seconds')):.2g}",
        f"{column('megabytes').min():.0f}",
    ]


def _means(*columns: np.ndarray[Any, Any]) -> str:
    return " / ".join(f"{np.nanmean(each):.1f}" for each in columns)
