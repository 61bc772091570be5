"""What was measured, kept: one Parquet file a kind, written whole after every block of samples."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import attribound as ab
from attribound.basics import store_whole, storing

#: The column that says which block of samples a row is of.
BLOCK = "block"
_BLOCKS = b"reproduction.blocks"

About = Mapping[str, Any]


def key_of(about: About) -> str:
    """What identifies a block: SHA-256 of the settings, model and data behind its rows."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class StoredTable:
    """Rows of many blocks in one Parquet file, with what each block is of in its footer.

    A reader sees a block whole or not at all, whatever happens to the writer: every block
    is a new file that takes the place of the old one. One process writes at a time; who
    calls ``append`` holds the lock of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._whole: pa.Table | None = None
        self._about: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self._whole, self._about = _read(path)

    @property
    def blocks(self) -> Mapping[str, dict[str, Any]]:
        """What is there: settings, model and data of every block, by key."""
        return self._about

    def rows(self, keys: list[str]) -> pa.Table | None:
        """The rows of some blocks, by sample; None if there are none."""
        if self._whole is None or not keys:
            return None
        own = self._whole.filter(pc.is_in(self._whole[BLOCK], pa.array(keys, pa.string())))
        rows = own.drop_columns([BLOCK]).combine_chunks()
        # By the sample alone: tables with records can't be sorted as a whole.
        return rows.take(pc.sort_indices(rows["sample"])) if rows.num_rows else None

    def append(self, about: About, rows: pa.Table) -> str:
        """Add a block, and have it on the disk.

        Raises:
            StorageError: the system refused; what was there before is whole.
        """
        key = key_of(about)
        if key in self._about:
            return key
        own = rows.replace_schema_metadata(None).add_column(
            0,
            pa.field(BLOCK, pa.string(), nullable=False),
            pa.array([key] * len(rows), pa.string()),
        )
        # A column that rows got later is null in those from before.
        there = [own] if self._whole is None else [self._whole, own]
        whole = pa.concat_tables(there, promote_options="default")
        known = {**self._about, key: dict(about)}
        described = whole.replace_schema_metadata({_BLOCKS: _packed(known)})
        buffer = pa.BufferOutputStream()
        pq.write_table(described, buffer, compression="zstd", write_page_checksum=True)
        with storing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        store_whole(self.path, memoryview(buffer.getvalue()))
        self._whole, self._about = whole, known
        return key


def _read(path: Path) -> tuple[pa.Table, dict[str, dict[str, Any]]]:
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        about = _unpacked((table.schema.metadata or {})[_BLOCKS])
        blocks = {*table[BLOCK].unique().to_pylist()}
    except (OSError, pa.ArrowException, KeyError, ValueError, zlib.error) as error:
        raise _damaged(path, f"a damaged or foreign file: {error}") from error
    wrong = [key for key, each in about.items() if key_of(each) != key]
    if wrong or not blocks <= {*about}:
        raise _damaged(path, "blocks that are not what they say")
    return table.replace_schema_metadata(None), about


def _packed(about: Mapping[str, Any]) -> bytes:
    """Settings repeat themselves from block to block, and a footer is not compressed."""
    return base64.b64encode(zlib.compress(json.dumps(about, sort_keys=True).encode(), 9))


def _unpacked(text: bytes) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(zlib.decompress(base64.b64decode(text)))
    return found


def _damaged(path: Path, got: str) -> ab.InputError:
    return ab.InputError(
        str(path),
        expected="a table that the reproduction stored",
        got=got,
        remedy="restore it, e.g. by git checkout, or delete it: it is measured again",
    )
