"""Records inside records: what is changed by a table, and errors that name the path."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field

import pytest

from attribound.basics.errors import InputError, ModelError
from attribound.values import Record, Value, from_spec, name_of, to_spec


class Wheel(Value, ABC):
    """Something of several kinds."""


@dataclass(frozen=True)
class Round(Wheel):
    size: float = 1.0
    spokes: int = 8

    def __post_init__(self) -> None:
        if self.spokes < 1:
            raise InputError("spokes", expected="some", got=str(self.spokes), remedy="use 8")


@dataclass(frozen=True)
class Place(Record):
    name: str
    height: float = 0.0


@dataclass(frozen=True)
class Cart(Record):
    wheel: Wheel = field(default_factory=lambda: Round(size=2.0))
    place: Place = field(default_factory=lambda: Place("here", 7.0))
    wheels: tuple[Wheel, ...] = ()
    load: int | tuple[int, ...] = 0


def test_a_table_without_a_kind_changes_the_usual_value() -> None:
    assert from_spec({"wheel": {"spokes": 3}}, Cart).wheel == Round(size=2.0, spokes=3)
    kind = name_of(Round)
    assert from_spec({"wheel": {"kind": kind, "spokes": 3}}, Cart).wheel == Round(spokes=3)


def test_a_record_in_a_record_is_given_whole() -> None:
    """Its plain data leave out what is usual for it, not for that setting."""
    cart = Cart(place=Place("there"))
    assert from_spec({"place": {"name": "there"}}, Cart) == cart
    assert from_spec(to_spec(cart), Cart) == cart


@pytest.mark.parametrize("whole", [True, False])
def test_values_that_differ_from_the_usual_one_come_back(whole) -> None:
    for cart in (Cart(), Cart(wheel=Round()), Cart(wheel=Round(spokes=3), wheels=(Round(3.0),))):
        assert from_spec(to_spec(cart, whole=whole), Cart) == cart


def test_a_record_is_called_by_its_class() -> None:
    assert name_of(Cart) == "Cart"
    assert name_of(Round) == f"{__name__}:Round"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"weel": 1}, "^weel: expected only settings of Cart: wheel, place, .*got 'weel'"),
        ({"wheel": {"spoke": 1}}, r"^wheel\.spoke: expected only settings of .*Round: size, spok"),
        ({"wheel": {"spokes": "x"}}, r"^wheel\.spokes: expected a valid integer, got 'x'"),
        ({"wheel": {"spokes": 0}}, r"^wheel\.spokes: expected some, got 0; use 8$"),
        ({"wheel": {"kind": "sledge"}}, "^wheel: expected one of .*got 'sledge'"),
        ({"wheels": [{"spokes": 3}]}, r"^wheels\.0: expected a 'kind'"),
        ({"place": {}}, r"^place\.name: expected a value, got nothing"),
        ({"place": 3}, "^place: expected a table of settings: name, height, got 3"),
        ({"load": "x"}, "^load: expected a valid integer or a valid tuple, got 'x'"),
        ({"load": "x", "weel": 1}, r"settings of Cart: .*load: .* \| weel: .*; mend all of these"),
        (3, "^Cart: expected a table of settings: wheel, place, wheels, load, got 3"),
    ],
)
def test_errors_name_the_path(table, message) -> None:
    with pytest.raises(InputError, match=message):
        from_spec(table, Cart)


@pytest.mark.parametrize(
    ("subject", "told"),
    [("lr", "a.b.lr"), ("base.lr", "a.b.base.lr"), ("Ball", "a.b"), ("the file", "a.b: the file")],
)
def test_an_error_from_inside_says_where(subject, told) -> None:
    error = ModelError(subject, expected="x", got="y", remedy="z").inside("a.b")
    assert isinstance(error, ModelError)
    assert str(error) == f"{told}: expected x, got y; z"
