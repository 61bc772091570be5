"""The rows of a run in groups, and what the page computes with."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribound.report.groups import groups
from attribound.report.page_data import page_data, script_json
from attribound.results import Moves
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


def test_there_is_a_group_for_each_attribution_and_ball(found) -> None:
    names = [(group.attribution, group.ball, group.epsilons) for group in found]
    assert names == [
        (cases.HOSTILE, "l2", (0.05, 0.1)),
        (cases.HOSTILE, "linf", (0.01, 0.02)),
        ("saliency", "l2", (0.05, 0.1)),
        ("saliency", "linf", (0.01, 0.02)),
    ]
    order = ["first_order", "adjusted", "calibrated", "mean_value", "certified"]
    assert all([claim.name for claim in group.claims] == order for group in found)


def test_columns_are_aligned_by_sample_and_null_is_nan(found) -> None:
    group = found[2]
    by_radius = group.bounds(group.claims[0])
    failed = group.samples.tolist().index(100 + 10 * cases.FAILED)
    assert np.isnan(by_radius[0.1][failed])
    np.testing.assert_allclose(by_radius[0.1], 2 * by_radius[0.05], rtol=1e-12)
    assert np.isnan(group.constant("attribution_norm")[failed])
    assert group.samples.tolist() == sorted(group.samples.tolist())


def test_a_range_makes_first_order_bounds_non_linear(found) -> None:
    assert [group.linear for group in found] == [True, False, True, False]
    assert found[0].claims[0].moves is Moves.SCALED


def test_exceeded_is_what_was_measured(found) -> None:
    cell = found[2].cells[1]
    expected = cell.strongest("deviation") > cell.bound("first_order")
    np.testing.assert_array_equal(cell.exceeded("first_order"), expected)
    assert expected.any()
    assert not expected.all()
