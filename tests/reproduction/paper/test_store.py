"""One table of many blocks: whole or not there, recognised, and refused if damaged."""

from __future__ import annotations

import base64
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribound import InputError
from attribound.basics import StorageError
from reproduction.paper import store
from reproduction.paper.store import BLOCK, StoredTable, key_of


def rows(*samples: int) -> pa.Table:
    records = [[{"claim": "first_order", "euclidean": float(i)}] for i in samples]
    return pa.table({"sample": [*samples], "bounds": records})


ONE, TWO = {"settings": {"skip": 0}}, {"settings": {"skip": 2}}


@pytest.fixture
def path(tmp_path):
    stored = StoredTable(tmp_path / "deep" / "paper.parquet")
    stored.append(ONE, rows(7, 3))
    stored.append(TWO, rows(5))
    return stored.path


def test_blocks_come_back_by_their_keys(path) -> None:
    again = StoredTable(path)
    assert dict(again.blocks) == {key_of(ONE): ONE, key_of(TWO): TWO}
    both = again.rows([key_of(TWO), key_of(ONE)])
    assert both["sample"].to_pylist() == [3, 5, 7]
    assert both.column_names == ["sample", "bounds"]
    assert both["bounds"][1].as_py() == [{"claim": "first_order", "euclidean": 5.0}]
    assert again.rows([key_of(TWO)])["sample"].to_pylist() == [5]
    assert again.rows([]) is None
    assert again.rows(["unknown"]) is None
    assert [file.name for file in path.parent.iterdir()] == ["paper.parquet"]


def test_a_block_is_stored_once(path) -> None:
    stored = StoredTable(path)
    before = path.read_bytes()
    assert stored.append(ONE, rows(7, 3)) == key_of(ONE)
    assert path.read_bytes() == before


def test_without_a_file_there_is_nothing(tmp_path) -> None:
    empty = StoredTable(tmp_path / "paper.parquet")
    assert not empty.blocks
    assert empty.rows([key_of(ONE)]) is None


def test_a_full_disk_leaves_what_was_there(path, monkeypatch) -> None:
    before = path.read_bytes()
    stored = StoredTable(path)

    def full(*_):
        raise StorageError("disk", expected="room", got="none", remedy="make room")

    monkeypatch.setattr(store, "store_whole", full)
    with pytest.raises(StorageError, match="make room"):
        stored.append({"settings": {"skip": 4}}, rows(9))
    assert path.read_bytes() == before
    assert len(stored.blocks) == 2


def torn(path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flipped(path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 8] ^= 255
    path.write_bytes(content)


def foreign(path) -> None:
    pq.write_table(pa.table({"sample": [1]}), path)


def renamed(path) -> None:
    table = pq.read_table(path)
    packed = (table.schema.metadata or {})[b"reproduction.blocks"]
    text = zlib.decompress(base64.b64decode(packed))
    assert b'"skip": 2' in text
    changed = base64.b64encode(zlib.compress(text.replace(b'"skip": 2', b'"skip": 8')))
    pq.write_table(table.replace_schema_metadata({b"reproduction.blocks": changed}), path)


def unreadable(path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"reproduction.blocks": b"e30="}), path)


def unknown(path) -> None:
    table = pq.read_table(path)
    other = pa.array(["unknown"] * len(table))
    pq.write_table(table.set_column(0, BLOCK, other), path)


@pytest.mark.parametrize("damage", [torn, flipped, foreign, renamed, unreadable, unknown])
def test_what_is_damaged_is_refused(path, damage) -> None:
    damage(path)
    with pytest.raises(InputError, match=r"paper\.parquet: expected a table that the reproduction"):
        StoredTable(path)


def test_rows_may_get_columns_later(tmp_path) -> None:
    stored = StoredTable(tmp_path / "a.parquet")
    before = stored.append({"settings": 1}, pa.table({"sample": [1]}))
    now = stored.append({"settings": 2}, pa.table({"sample": [2], "id": ["two"]}))
    again = StoredTable(tmp_path / "a.parquet")
    assert again.rows([before, now]).to_pylist() == [
        {"sample": 1, "id": None},
        {"sample": 2, "id": "two"},
    ]
