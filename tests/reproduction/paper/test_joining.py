"""Rows of several kinds as one row a sample."""

from __future__ import annotations

import pyarrow as pa

from attribound.auditing.rows import SCHEMA, table
from reproduction.paper.joining import joined


def row(sample: int, bounds=(), attacks=(), error=None, ball: str = "l2") -> dict:
    strongest = max(attacks, key=lambda pair: pair[1], default=None)
    return {
        "sample": sample,
        "batch": 0,
        "label": 0,
        "attribution": "ig",
        "ball": ball,
        "epsilon": 0.1,
        "features": 4,
        "error": error,
        "bounds": [{"claim": claim, "euclidean": value} for claim, value in bounds],
        "attacks": [{"attack": name, "deviation": value, "repeats": []} for name, value in attacks],
        "strongest": strongest
        and {"by": strongest[0], "deviation": strongest[1], "degrees": 10 * strongest[1]},
    }


def rows(*given: dict) -> pa.Table:
    return table(given, SCHEMA)


def test_nothing_and_one_are_as_they_are() -> None:
    one = rows(row(1))
    assert joined([]) is None
    assert joined([one]) is one


def test_bounds_and_attacks_of_a_sample_come_together() -> None:
    first = rows(row(1, [("first_order", 1.0)]), row(2, [("first_order", 2.0)]))
    second = rows(
        row(2, [("first_order", 9.0), ("mean_value", 3.0)], [("pgd", 0.5)]),
        row(2, [("first_order", 7.0)], ball="linf"),
    )
    third = rows(row(2, (), [("ifia", 0.25)]), row(3, [("first_order", 3.0)]))
    found = joined([first, second, third]).to_pylist()
    assert [(each["sample"], each["ball"]) for each in found] == [
        (1, "l2"),
        (2, "l2"),
        (2, "linf"),
        (3, "l2"),
    ]
    own = found[1]
    assert {b["claim"]: b["euclidean"] for b in own["bounds"]} == {
        "first_order": 2.0,
        "mean_value": 3.0,
    }
    assert [attack["attack"] for attack in own["attacks"]] == ["pgd", "ifia"]
    assert (own["strongest"]["by"], own["strongest"]["degrees"]) == ("pgd", 5.0)
    assert found[0]["strongest"] is None


def test_a_failure_takes_nothing_from_what_worked() -> None:
    fine, failed = rows(row(1, [("first_order", 1.0)])), rows(row(1, error="boom"))
    for both in ([fine, failed], [failed, fine]):
        (found,) = joined(both).to_pylist()
        assert found["error"] is None
        assert len(found["bounds"]) == 1
    (found,) = joined([failed, failed]).to_pylist()
    assert found["error"] == "boom"
