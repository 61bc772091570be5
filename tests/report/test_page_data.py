from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribound.report.groups import groups
from attribound.report.page_data import page_data, script_json
from report import cases


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return groups(cases.run(tmp_path_factory.mktemp("data") / "run").rows())


@settings(max_examples=40)
@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5))
def test_json_in_a_script_cannot_end_it_and_comes_back(value) -> None:
    text = script_json(value)
    assert not {"<", ">", "&", "\u2028", "\u2029"} & {*text}
    assert json.loads(text) == value


def test_plain_json_would_end_the_script() -> None:
    assert "</script>" in json.dumps(cases.HOSTILE)
    assert "</script>" not in script_json(cases.HOSTILE)


def test_numbers_that_json_lacks_are_texts_or_null(found) -> None:
    data = json.loads(script_json(page_data(found, cases.CLASSES)))
    group = data["groups"][2]
    calibrated = group["bounds"]["calibrated"][0]
    assert calibrated[9] == "inf"
    assert calibrated[cases.FAILED] is None
    assert group["labels"][:3] == [0, 1, 2]
    assert data["classes"] == {"0": "shirt", "1": cases.HOSTILE, "2": "bag"}
    assert group["predictions"][cases.WRONG] == (cases.WRONG + 1) % 3


def test_exceeded_bounds_are_those_of_the_run(found) -> None:
    group = found[2]
    data = page_data(found, cases.CLASSES)["groups"][2]
    assert data["exceeded"]["yours"]["first_order"][1] == [
        i for i, flag in enumerate(group.cells[1].exceeded("first_order")) if flag
    ]
    assert data["exceeded"]["yours"]["certified"] == [[], []]


def test_a_long_run_is_thinned_evenly(found) -> None:
    thin = page_data(found, cases.CLASSES, rows=8 * 5)["groups"][0]
    assert thin["total"] == 24
    assert thin["samples"] == [100, 160, 220, 270, 330]  # positions 0, 6, 12 (11.5), 17, 23
    assert all(len(values) == 5 for values in thin["attacks"]["yours"]["deviation"])
