"""Errors, and checks of numbers and tensors."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch

import attribound as ab
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
from attribound.basics.tensors import angle_degrees, dot, norm, per_example, ratio, round_up, unit

KINDS = [
    ab.AttriboundError,
    ab.InputError,
    ab.ModelError,
    ab.KinkError,
    ab.ProbeError,
    ab.MemoryLimitError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_is_a_value_error_that_says_expected_got_and_remedy(kind) -> None:
    with pytest.raises(
        ValueError, match=r"^x: expected a tensor, got a list; convert it$"
    ) as caught:
        raise kind("x", expected="a tensor", got="a list", remedy="convert it")
    assert isinstance(caught.value, ab.AttriboundError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_survives_copy_and_pickle(kind, again) -> None:
    error = kind("x", expected="a tensor", got="a list", remedy="convert it")
    assert type(again(error)) is kind
    assert str(again(error)) == str(error)
    assert str(again(again(error))) == str(error)


def test_a_kink_is_an_error_of_the_model() -> None:
    assert issubclass(ab.KinkError, ab.ModelError)
    assert issubclass(ab.ProbeError, ab.ModelError)


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


A = torch.arange(12.0).double().reshape(2, 2, 3) - 4


def test_dot_and_norm_are_per_example() -> None:
    torch.testing.assert_close(dot(A, A), (A**2).sum((1, 2)))
    torch.testing.assert_close(norm(A), (A**2).sum((1, 2)).sqrt())
    torch.testing.assert_close(norm(A, math.inf), A.abs().amax((1, 2)))


def test_per_example_scales_rows() -> None:
    scaled = A * per_example(torch.tensor([1.0, 10.0]), A)
    torch.testing.assert_close(scaled[1], 10 * A[1])


def test_unit_leaves_zero_alone() -> None:
    torch.testing.assert_close(
        norm(unit(torch.stack([A[0], 0 * A[0]]))), torch.tensor([1.0, 0.0]).double()
    )


@pytest.mark.parametrize("degrees", [1e-7, 1e-3, 30.0, 90.0, 179.999, 180.0])
def test_angle_keeps_its_digits(degrees) -> None:
    radians = math.radians(degrees)
    a = torch.tensor([[2.0, 0.0]]).double()
    b = 3 * torch.tensor([[math.cos(radians), math.sin(radians)]], dtype=torch.float64)
    torch.testing.assert_close(angle_degrees(a, b).item(), degrees, rtol=1e-9, atol=1e-12)


def test_angle_with_a_zero_vector_is_180() -> None:
    assert angle_degrees(A, 0 * A).tolist() == [180, 180]
    assert angle_degrees(0 * A, 0 * A).tolist() == [180, 180]


def test_ratio_of_zeros_is_zero() -> None:
    assert ratio(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.0, 0.0, 2.0])).tolist() == [
        0,
        math.inf,
        0.5,
    ]


def test_round_up_never_rounds_down() -> None:
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0)).double() * 1.0000001
    single = round_up(values, torch.zeros(1))
    assert single.dtype == torch.float32
    assert (single.double() >= values).all()
    assert (single.double() <= values * (1 + 2**-22)).all()
    assert round_up(torch.tensor([1e-60], dtype=torch.float64), torch.zeros(1)) > 0
