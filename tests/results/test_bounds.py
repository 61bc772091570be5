from __future__ import annotations

import pytest

import attribound as ab
import cases
from attribound.bounding.mean_value import MEAN_VALUE


@pytest.fixture
def both() -> ab.Bounds:
    attribution, x = cases.quadratic([-5.0, 3.0, 1.0])
    return ab.bounds(attribution, x, ab.L2Ball(0.1), claims=["first_order", "mean_value"])


def test_is_a_mapping_by_claim(both) -> None:
    assert list(both) == ["first_order", "mean_value"]
    assert len(both) == 2
    assert both["mean-value"] is both[MEAN_VALUE] is both["mean_value"]
    with pytest.raises(KeyError, match="certified"):
        both["certified"]
    with pytest.raises(ab.InputError, match="claim: expected one of first_order"):
        both["best"]


def test_shows_cost_and_status_of_each(both) -> None:
    shown = repr(both)
    assert "deviation of your network, 2 examples, l2 ball of radius 0.1" in shown
    assert "mean-value (searched)" in shown
    assert "2 converged" in shown
    assert both.seconds.keys() == both.keys()
    assert all(seconds > 0 for seconds in both.seconds.values())
