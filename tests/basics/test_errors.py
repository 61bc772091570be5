from __future__ import annotations

import copy
import pickle

import pytest

import attribound as ab

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
