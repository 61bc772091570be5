from __future__ import annotations

import numpy as np
import pytest

from attribound.report.groups import groups
from attribound.results import Moves
from report import cases


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return groups(cases.run(tmp_path_factory.mktemp("cells") / "run").rows())


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
