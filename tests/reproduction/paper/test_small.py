"""The small version of the paper: its relations, and that one which does not hold is seen.

Also: Rows of several kinds as one row a sample.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pyarrow as pa
import pytest

from attribound.auditing.rows import SCHEMA, table
from reproduction.paper import small
from reproduction.paper.joining import joined
from shared import needed

EXPECTED = json.loads(small.EXPECTATION.read_text())


def fulfilled() -> dict:
    """Numbers and verdicts as they are expected."""
    numbers: dict[str, dict[str, float]] = {}
    for where, key in EXPECTED["zero"]:
        numbers.setdefault(where, {})[key] = 0
    order = [place for pair in EXPECTED["below"] for place in pair]
    ranks = {tuple(place): 1.0 for place in order}
    for _ in order:  # until all pairs are in order
        for lower, upper in EXPECTED["below"]:
            low = ranks[tuple(lower)]
            ranks[tuple(upper)] = max(ranks[tuple(upper)], low + 1)
    for (where, key), value in ranks.items():
        numbers.setdefault(where, {})[key] = value
    return {"verdicts": dict(EXPECTED["verdicts"]), "numbers": numbers}


def test_what_is_expected_passes() -> None:
    assert list(small.violated(EXPECTED, fulfilled())) == []


@pytest.mark.parametrize("name", EXPECTED["verdicts"])
def test_another_verdict_is_seen(name) -> None:
    found = fulfilled()
    found["verdicts"][name] = "not measured yet"
    assert [name in fault for fault in small.violated(EXPECTED, found)] == [True]


@pytest.mark.parametrize("index", range(len(EXPECTED["below"])))
def test_another_order_is_seen(index) -> None:
    found = copy.deepcopy(fulfilled())
    (where, key), _ = EXPECTED["below"][index]
    found["numbers"][where][key] = 1e9
    assert list(small.violated(EXPECTED, found))


@pytest.mark.parametrize("value", [3.0, None])
def test_a_violation_or_a_gap_is_seen(value) -> None:
    found = copy.deepcopy(fulfilled())
    where, key = EXPECTED["zero"][0]
    found["numbers"][where][key] = value
    assert [key in fault for fault in small.violated(EXPECTED, found)] == [True]


def test_the_relations_hold(tmp_path) -> None:
    """The small version itself, a minute and a half: the longest test of CI."""
    needed(Path("/usr/share/datasets/fashion-mnist"), "install dataset-fashion-mnist")
    assert small.main(tmp_path) == 0


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
