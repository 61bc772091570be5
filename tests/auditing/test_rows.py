from __future__ import annotations

import pyarrow as pa
import pytest

from attribound.auditing.rows import KEY, attacks_in, claims_in, schema, table, timings_in
from attribound.auditing.settings import AscentSettings, AuditSettings


def columns(**changes) -> list[str]:
    return schema(AuditSettings("m", "d", **changes)).names


def test_the_columns_follow_from_the_settings() -> None:
    names = columns(claims=("mean_value",), attacks={"mine": AscentSettings()})
    assert len(names) == len(set(names))
    assert {"mean_value_degrees_broken", "attack_mine_mean_degrees", "adjusted"} <= set(names)
    assert not any(name.startswith(("first_order", "fidelity")) for name in names)
    assert "fidelity_degrees" in columns(smooth=20)


def test_claims_attacks_and_timings_can_be_read_off() -> None:
    names = columns(protocol="strong", calibration="c.json")
    assert claims_in(names) == ["first_order", "mean_value", "calibrated", "certified"]
    assert attacks_in(names) == ["angle", "ascent", "ifia", "pgd", "projected"]
    assert len(timings_in(names)) == 4 + 5


def test_the_schema_does_not_depend_on_the_order_of_attacks() -> None:
    one, other = ({name: AscentSettings() for name in names} for names in ("ab", "ba"))
    assert columns(attacks=one) == columns(attacks=other)


def test_rows_become_a_sorted_table_and_a_key_that_is_no_column_is_noticed() -> None:
    kinds = pa.schema([(name, pa.string()) for name in (*KEY, "error")])
    made = table([{"sample": "b"}, {"sample": "a", "error": "x"}], kinds)
    assert made.schema == kinds
    assert made["sample"].to_pylist() == ["a", "b"]
    assert made["error"].to_pylist() == ["x", None]
    with pytest.raises(AssertionError, match="other"):
        table([{"other": "1"}], kinds)
