"""Rows about the same samples from several kinds of runs, as one row a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_KEY = ("sample", "attribution", "ball", "epsilon")


def joined(tables: Sequence[pa.Table]) -> pa.Table | None:
    """One row a sample, attribution and ball, with the bounds and attacks of all tables.

    A claim or an attack that several have is the first one's. Small measurements, which have
    no such records, come from one kind only.
    """
    if len(tables) < 2:
        return tables[0] if tables else None
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for table in tables:
        for row in table.to_pylist():
            key = tuple(row[name] for name in _KEY)
            found[key] = _both(found[key], row) if key in found else row
    return pa.Table.from_pylist([found[key] for key in sorted(found)], schema=tables[0].schema)


def without_bounds(rows: pa.Table) -> pa.Table:
    """The rows as if no bound had been asked for."""
    empty = [{**row, "bounds": []} for row in rows.to_pylist()]
    return pa.Table.from_pylist(empty, schema=rows.schema)


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if other["error"] is not None:
        return one
    if one["error"] is not None:
        return other
    return {
        **one,
        "bounds": _united(one["bounds"], other["bounds"], "claim"),
        "attacks": _united(one["attacks"], other["attacks"], "attack"),
        "strongest": _stronger(one["strongest"], other["strongest"]),
    }


def _united(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], name: str
) -> list[Mapping[str, Any]]:
    known = {record[name] for record in first}
    return [*first, *(record for record in second if record[name] not in known)]


def _stronger(
    one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    if one is None or other is None:
        return one or other
    most = max(one, other, key=lambda record: record["deviation"])
    return {**most, "degrees": max(one["degrees"], other["degrees"])}
