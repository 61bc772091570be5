"""Where the rows are kept: part files that survive a kill, then one table.

A part is written under another name and renamed when it is whole, so that it is
there completely or not at all. Which process computes it is settled by a lock that
the system releases with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

TEXT, NUMBER, COUNT, FLAG = pa.string(), pa.float64(), pa.int64(), pa.bool_()
CLAIMS = ("first_order", "mean_value", "certified")
SCHEMA = pa.schema(
    {
        "network": TEXT,
        "attribution": TEXT,
        # test, calibration; again-test, again-calibration: the second pass of attacks alone;
        # linear: the l-infinity problem at x alone
        "role": TEXT,
        "p": NUMBER,
        "epsilon": NUMBER,  # null in linear rows: there everything is per unit of epsilon
        "sample": COUNT,  # index in t10k
        "label": COUNT,
        "features": COUNT,
        "attribution_norm": NUMBER,
        "attack": NUMBER,  # largest deviation that any trial of this pass attained
        "attack_by": TEXT,
        "attack_label_kept": FLAG,
        "attack_gradients": COUNT,
        "attack_seconds": NUMBER,
        "adjusted": NUMBER,
        **{
            name: kind
            for claim in CLAIMS
            for name, kind in {
                claim: NUMBER,
                f"{claim}_source": TEXT,
                f"{claim}_status": TEXT,
                f"{claim}_products": COUNT,
                f"{claim}_seconds": NUMBER,
            }.items()
        },
        "theorem2": NUMBER,
        "theorem2_products": COUNT,
        "theorem2_seconds": NUMBER,
        "corollary1": NUMBER,
        "corollary1_products": COUNT,
        "norm_lower": NUMBER,
        "norm_upper": NUMBER,
        "norm_products": COUNT,
        "norm_status": TEXT,
        "norm_seconds": NUMBER,
        "settings": TEXT,
    }
)
_SETTINGS = b"attribound.settings"


def write(path: Path, rows: Iterable[Row], settings: object) -> None:
    """Store ``rows`` atomically; columns they do not name are null, unknown ones an error."""
    text = json.dumps(settings, sort_keys=True)
    rows = list(rows)
    unknown = {name for row in rows for name in row} - set(SCHEMA.names)
    if unknown:
        raise KeyError(f"columns that the schema does not have: {sorted(unknown)}")
    table = pa.Table.from_pylist(rows, SCHEMA.with_metadata({_SETTINGS: text.encode()}))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".writing-{os.getpid()}")
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)


def read(path: Path) -> list[Row]:
    """The rows of a file."""
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def settings_of(path: Path) -> Any:
    """The settings stored with a file."""
    return json.loads(pq.read_schema(path).metadata[_SETTINGS])


def done(path: Path, settings: object) -> bool:
    """Whether ``path`` is there, computed with the same settings."""
    return path.exists() and settings_of(path) == json.loads(json.dumps(settings))


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether this process may compute ``path``: nobody else does while this is open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_suffix(".lock")
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            lock.unlink(missing_ok=True)
