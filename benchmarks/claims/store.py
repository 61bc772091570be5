"""Where the rows are kept: tables of audits, of audits of copies, of the comparison at x."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attribound.auditing.rows import SCHEMA
from attribound.basics.whole_files import write_whole

#: The version whose numbers the stored rows are: raised when results change, not with a release.
MEASURED_BY = "0.1.0"
RESULTS = Path(__file__).resolve().parents[1] / "results"
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
#: What tells rows of the benchmark apart; ``settings`` has all that they depend on.
KEY = {"network": _TEXT, "role": _TEXT, "place": _COUNT, "settings": _TEXT}
#: The rows of audits, with the index in the test images as their sample.
BOUNDS = pa.schema([*KEY.items(), *SCHEMA])
#: The same of networks with kinks, bounded through smooth copies.
COPIED = pa.schema(
    [
        *KEY.items(),
        ("smooth", _TEXT),  # the beta that was asked for, or auto
        ("beta", _NUMBER),
        ("tried", _TEXT),  # how auto chose, as JSON
        ("accuracy", _NUMBER),  # of the network itself, on its test data
        ("own_norm", _NUMBER),  # of the network's own attribution
        *SCHEMA,
    ]
)
#: The l-infinity problem at x; everything is per unit of epsilon.
LINEAR = pa.schema(
    {
        **KEY,
        "attribution": _TEXT,
        "sample": _COUNT,
        "label": _COUNT,
        "features": _COUNT,
        "theorem2": _NUMBER,
        "theorem2_products": _COUNT,
        "theorem2_seconds": _NUMBER,
        "corollary1": _NUMBER,
        "corollary1_products": _COUNT,
        "norm_lower": _NUMBER,
        "norm_upper": _NUMBER,
        "norm_products": _COUNT,
        "norm_status": _TEXT,
        "norm_seconds": _NUMBER,
    }
)


class Stored:
    """A table on disk that only grows: whole after every block, whatever happens in between.

    ``key`` names the columns that tell its rows apart.
    """

    def __init__(self, path: Path, schema: pa.Schema, key: Iterable[str] = KEY) -> None:
        self.path, self.key = path, tuple(key)
        self.rows = pq.read_table(path, schema=schema) if path.exists() else schema.empty_table()

    def keys(self) -> set[tuple[Hashable, ...]]:
        """What is there."""
        return {*self._keys()}

    def only(self, keys: Set[tuple[Hashable, ...]]) -> pa.Table:
        """The rows of these keys."""
        return self.rows.filter(pa.array([key in keys for key in self._keys()], pa.bool_()))

    def listed(self) -> list[dict[str, Any]]:
        """All rows, in the order of their keys."""
        rows: list[dict[str, Any]] = self.rows.to_pylist()
        return sorted(rows, key=lambda row: tuple(row[name] for name in self.key))

    def add(self, rows: pa.Table) -> None:
        """Store these rows, too."""
        self.rows = pa.concat_tables([self.rows, rows.cast(self.rows.schema)])
        file = pa.BufferOutputStream()
        pq.write_table(self.rows, file, compression="zstd")
        write_whole(self.path, memoryview(file.getvalue()))

    def _keys(self) -> Iterator[tuple[Hashable, ...]]:
        return zip(*(self.rows[name].to_pylist() for name in self.key), strict=True)
