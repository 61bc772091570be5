from __future__ import annotations

import math

import pyarrow as pa
import pytest

from attribound.auditing.rows import KEY, MAPS_SCHEMA, SCHEMA, long, samples, table, untimed
from auditing import fakes


def rows() -> pa.Table:
    fine, failed = fakes.measured(range(2)).rows, fakes.measured(range(2, 3), "boom").rows
    return pa.concat_tables([fine, failed])


def test_what_is_always_known_is_never_null() -> None:
    known = {"batch", "label", "features", "bounds", "attacks", *KEY}
    assert {field.name for field in SCHEMA if not field.nullable} == known
    assert not any(field.nullable for field in MAPS_SCHEMA)


def test_rows_become_a_sorted_table_and_a_key_that_is_no_column_is_noticed() -> None:
    kinds = pa.schema([(name, pa.string()) for name in (*KEY, "error")])
    made = table([{"sample": "b"}, {"sample": "a", "error": "x"}], kinds)
    assert made.schema == kinds
    assert made["sample"].to_pylist() == ["a", "b"]
    assert made["error"].to_pylist() == ["x", None]
    with pytest.raises(AssertionError, match="other"):
        table([{"other": "1"}], kinds)


def test_rows_with_records_are_sorted_by_their_key_alone() -> None:
    (own,) = fakes.measured(range(1)).rows.to_pylist()[:1]
    made = table([{**own, "sample": sample, "epsilon": math.pi} for sample in (3, 1, 2)], SCHEMA)
    assert made.schema == SCHEMA
    assert made["sample"].to_pylist() == [1, 2, 3]
    assert made["bounds"][0].as_py() == own["bounds"]


def test_samples_have_a_column_for_each_field_of_their_records() -> None:
    made = samples(rows())
    assert made.num_rows == rows().num_rows
    nested = [
        name for name in made.schema.names if pa.types.is_nested(made.schema.field(name).type)
    ]
    assert nested == []
    for found, row in zip(made.to_pylist(), rows().to_pylist(), strict=True):
        for name in ("strongest", "fidelity"):
            own = row[name] or dict.fromkeys(each.name for each in SCHEMA.field(name).type)
            assert {field: found[f"{name}_{field}"] for field in own} == own
        assert found["error"] == row["error"]
        assert found["sample"] == row["sample"]


def test_an_empty_table_has_the_same_columns() -> None:
    empty = SCHEMA.empty_table()
    assert samples(empty).schema == samples(rows()).schema
    for name in ("bounds", "attacks"):
        assert long(empty, name).schema == long(rows(), name).schema
        assert long(empty, name).num_rows == 0


@pytest.mark.parametrize("name", ["bounds", "attacks"])
@pytest.mark.parametrize("cut", [slice(None), slice(1, 3), slice(4, 6)], ids=str)
def test_a_line_for_each_record_beside_the_key_of_its_row(name, cut) -> None:
    """Also of a part of a table, whose lists begin somewhere in the middle; none of failed rows."""
    part = rows()[cut]
    expected = [
        {
            **{key: row[key] for key in (*KEY, "label", "features", "error", "id")},
            **record,
        }
        for row in part.to_pylist()
        for record in row[name]
    ]
    assert long(part, name).to_pylist() == expected


def test_rows_of_two_runs_differ_in_their_timings_alone() -> None:
    one = rows().to_pylist()
    for row in one:
        for record in (*row["bounds"], *row["attacks"]):
            record["seconds"] = 1.5
    timed = pa.Table.from_pylist(one, SCHEMA)
    assert timed != rows()
    assert untimed(timed) == untimed(rows()) == rows()
    for row in one:
        for record in row["bounds"]:
            record["euclidean"] = 1.5
    assert untimed(pa.Table.from_pylist(one, SCHEMA)) != rows()
