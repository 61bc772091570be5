"""Stored rows, and settings they were stored with.

Also: Stored rows are found again after values have got new fields.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attribound as ab
from attribound.basics import whole_files
from claim_rows import row, table
from claims.rekey import completed, rekey
from claims.store import BOUNDS, LINEAR, Stored

ROWS = table([row("test", 0.1 + 0.2, first_order=1.0), row("test", 2.0, mean_value=None)])


def test_rows_come_back_exactly_with_their_types(tmp_path) -> None:
    path = tmp_path / "bounds.parquet"
    Stored(path, BOUNDS).add(ROWS)
    found = Stored(path, BOUNDS)
    assert found.rows.equals(ROWS)
    assert pq.read_schema(path).equals(BOUNDS)
    assert [file.name for file in tmp_path.iterdir()] == ["bounds.parquet"]


def test_rows_are_added_to_those_that_are_there_and_found_by_their_keys(tmp_path) -> None:
    stored = Stored(tmp_path / "bounds.parquet", BOUNDS)
    assert (stored.rows.num_rows, stored.keys()) == (0, set())
    stored.add(ROWS.slice(0, 1))
    stored.add(ROWS.slice(1))
    assert Stored(stored.path, BOUNDS).rows.equals(ROWS)
    keys = [("mlp-at-b5", "test", place, ROWS["settings"][0].as_py()) for place in (0, 1)]
    assert stored.keys() == {*keys}
    assert stored.only({keys[1], ("at", *keys[0][1:])}).equals(ROWS.slice(1))


def test_a_column_without_a_place_is_refused(tmp_path) -> None:
    stored = Stored(tmp_path / "bounds.parquet", BOUNDS)
    with pytest.raises(ValueError, match="schema"):
        stored.add(ROWS.append_column("nonsense", pa.array([1, 2])))
    with pytest.raises(ValueError, match="schema"):
        stored.add(LINEAR.empty_table())
    assert not stored.path.exists()


def test_a_kill_while_writing_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    stored = Stored(tmp_path / "bounds.parquet", BOUNDS)
    stored.add(ROWS.slice(0, 1))

    def killed(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_files.os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        stored.add(ROWS.slice(1))
    assert Stored(stored.path, BOUNDS).rows.equals(ROWS.slice(0, 1))


def test_settings_of_before_become_those_of_now() -> None:
    now = ab.to_spec({"claims": [ab.FirstOrder(), ab.Certified(widest=3)]}, whole=True)
    before = json.loads(json.dumps(now))
    del before["claims"][1]["nodes"], before["claims"][1]["seconds"]
    assert completed(before) == now
    assert completed(now) == now


def test_a_table_is_completed_once(tmp_path) -> None:
    text = json.dumps({"claims": [{"kind": "certified", "widest": 3}]}, sort_keys=True)
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"place": [1, 2, 3], "settings": [text, text, "{}"]}), file)
    assert rekey(file) == 1
    assert rekey(file) == 0
    rows = pq.read_table(file).to_pylist()
    assert [row["place"] for row in rows] == [1, 2, 3]
    assert json.loads(rows[0]["settings"])["claims"][0]["nodes"] == 100
    assert rows[2]["settings"] == "{}"
