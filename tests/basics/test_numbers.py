"""Numbers and choices are what settings need, or the error says what they must be."""

from __future__ import annotations

import math

import pytest

from attribound.basics.errors import InputError
from attribound.basics.numbers import (
    check_choice,
    check_count,
    check_fraction,
    check_least,
    check_positive,
    is_count,
    is_finite,
)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None])
def test_a_count_is_a_whole_number_from_one(value) -> None:
    assert not is_count(value)
    with pytest.raises(InputError, match=r"n: expected a whole number, 1 or more.*; try 1"):
        check_count("n", value, "try 1")
    check_count("n", 1, "try 1")


@pytest.mark.parametrize("value", ["c", ["a"], None])
def test_a_choice_is_one_of_those_given(value) -> None:
    with pytest.raises(InputError, match=r"s: expected 'a' or 'b', got .*; take a"):
        check_choice("s", value, ("a", "b"), "take a")
    check_choice("s", "b", ("a", "b"), "take a")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None])
def test_what_is_no_finite_number_is_none_of_these(value) -> None:
    assert not is_finite(value)
    with pytest.raises(InputError, match=r"x: expected a finite number above 0, got .*; try 1"):
        check_positive("x", value, "try 1")
    with pytest.raises(InputError, match="x: expected a finite number, 0 or more"):
        check_least("x", value, 0)
    with pytest.raises(InputError, match="x: expected a number between 0 and 1"):
        check_fraction("x", value)


def test_limits_are_in_or_out() -> None:
    check_least("x", 0, 0)
    check_positive("x", 1e-300, "try 1")
    check_fraction("x", 0.5)
    with pytest.raises(InputError, match="above 0, got 0"):
        check_positive("x", 0, "try 1")
    with pytest.raises(InputError, match=r"0 or more, got -0\.1"):
        check_least("x", -0.1, 0)
    for end in (0, 1):
        with pytest.raises(InputError, match="between 0 and 1"):
            check_fraction("x", end)
