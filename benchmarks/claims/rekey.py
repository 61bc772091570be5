"""Stored rows whose settings lack fields that values have got since, with their defaults.

``python benchmarks/claims/rekey.py benchmarks/results/bounds.parquet ...``: what was measured then
is what is measured with the defaults now, so that it need not be measured again. Running it twice
changes nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attribound.basics.whole_files import write_whole

#: By the name of a value: its new fields, with what they were before they could be set.
ADDED: dict[str, dict[str, Any]] = {"certified": {"nodes": 100, "seconds": 60.0}}


def completed(settings: Any) -> Any:
    """Settings as plain data, with the fields that they lack."""
    if isinstance(settings, list):
        return [completed(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    own = {key: completed(value) for key, value in settings.items()}
    return {**ADDED.get(str(own.get("kind")), {}), **own}


def rekey(path: Path) -> int:
    """Complete the settings of every row of a table; how many texts changed."""
    table = pq.read_table(path)
    known = {text: text for text in table["settings"].to_pylist()}
    for text in known:
        known[text] = json.dumps(completed(json.loads(text)), sort_keys=True)
    at = table.schema.get_field_index("settings")
    texts = pa.array([known[text] for text in table["settings"].to_pylist()], pa.string())
    changed = sum(before != after for before, after in known.items())
    if changed:
        file = pa.BufferOutputStream()
        field = table.schema.field(at)
        pq.write_table(table.set_column(at, field, texts), file, compression="zstd")
        write_whole(path, memoryview(file.getvalue()))
    return changed


def main() -> None:
    """Every file named."""
    for name in sys.argv[1:]:
        print(f"{name}: {rekey(Path(name))} settings completed")


if __name__ == "__main__":
    main()
