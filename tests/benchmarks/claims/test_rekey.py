"""Stored rows are found again after values have got new fields."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

import attribound as ab
from claims.rekey import completed, rekey


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
