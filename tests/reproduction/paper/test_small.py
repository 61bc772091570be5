"""The small version of the paper: its relations, and that one which does not hold is seen."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from reproduction.paper import small
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
