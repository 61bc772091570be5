"""Which types settings may have, and what is said of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest
import torch
from torch import Tensor

import attribound as ab
from attribound.values import NO_SETTING, Value
from attribound.values.checking import checked


@dataclass(frozen=True, eq=False)
class Every(Value):
    count: int
    share: float = 0.5
    flag: bool = False
    label: str | None = None
    limit: float | None = None
    choice: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    pair: tuple[tuple[float, float], ...] = ()
    units: float | Tensor | None = None
    fn: Callable[[Tensor], Tensor] | None = None
    inner: ab.Ball | None = None
    shown: bool = field(default=False, metadata=NO_SETTING)


def of(**document):
    return checked(Every, {"count": 1, **document})


def test_settings_are_converted() -> None:
    found = of(
        share=1,
        limit="inf",
        sizes=[1, 2],
        pair=[[0, 1], [2, 3]],
        units=[0.5, 1.0],
        fn="torch:tanh",
        inner="l2:epsilon=0.1",
    )
    assert found["share"] == 1.0
    assert found["limit"] == math.inf
    assert found["sizes"] == (1, 2)
    assert found["pair"] == ((0, 1), (2, 3))
    assert torch.equal(found["units"], torch.tensor([0.5, 1.0]).double())
    assert found["fn"] is torch.tanh
    assert found["inner"] == ab.L2Ball(0.1)
    assert set(found) == {"count", "share", "limit", "sizes", "pair", "units", "fn", "inner"}


def test_none_is_a_word_where_it_is_no_text() -> None:
    assert of(limit="none", units="none", inner="none", fn="none", label="none") == {
        "count": 1,
        "limit": None,
        "units": None,
        "inner": None,
        "fn": None,
        "label": "none",
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"count": True}, "count: expected a valid integer, got True"),
        ({"count": 1.0}, "count: expected a valid integer, got 1.0"),
        ({"count": "1"}, "count: expected a valid integer, got '1'"),
        ({"count": None}, "count: expected a valid integer, got None"),
        ({"share": "much"}, "share: expected a valid number, got 'much'"),
        ({"share": True}, "share: expected a valid number, got True"),
        ({"flag": 1}, "flag: expected a valid boolean, got 1"),
        ({"label": 3}, "label: expected a valid string, got 3"),
        ({"choice": "c"}, "choice: expected 'a' or 'b', got 'c'"),
        ({"sizes": [1, "x"]}, r"sizes\.1: expected a valid integer, got 'x'"),
        ({"units": "metres"}, "units: expected a valid number or .*Tensor, got 'metres'"),
        ({"fn": 3}, "fn: expected .*callable, got 3"),
        ({"inner": {"kind": "l2", "epsilon": -1}}, r"inner\.epsilon: expected a finite radius"),
        ({"inner": "cube"}, "inner: expected one of l2, linf, lp.*got 'cube'"),
        ({"shown": True}, "shown: expected only settings of .*Every: count, share"),
        ({"size": 3}, "size: expected only settings of .*Every: count, .*got 'size'; remove"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(document, message) -> None:
    with pytest.raises(ab.InputError, match=message):
        checked(Every, {"count": 1, **document})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ab.InputError, match="count: expected a value, got nothing; it has no defa"):
        checked(Every, {})


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(ab.InputError, match="expected usable settings, got") as error:
        checked(Every, {"share": "x", "size": 3})
    for part in ("count: expected a value", "share: expected a valid", "size: expected only"):
        assert part in str(error.value)
    assert str(error.value).endswith("mend all of these")
