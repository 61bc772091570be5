from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import attribound as ab
from attribound.attacks import PGD, Attack
from attribound.values import Value, class_of, names, register, registry
from attribound.values.registry import imported, is_registered, name_of


@pytest.fixture(autouse=True)
def _undone(monkeypatch):
    """What is registered here is taken out again."""
    for name in ("_named", "_names"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


@dataclass(frozen=True)
class Mine(Value):
    size: int = 1


@dataclass(frozen=True)
class Other(Value):
    pass


def test_a_registered_class_is_found_by_its_name() -> None:
    assert register("my_value")(Mine) is Mine
    assert class_of("my_value", Value) is Mine
    assert class_of("my-value", Mine) is Mine
    assert is_registered("my_value")
    assert is_registered("my-value")
    assert "my_value" in names()
    assert names(Mine) == ("my_value",)
    assert ab.from_spec("my_value:size=3", Mine) == Mine(3)


def test_names_are_those_of_a_kind_in_their_order() -> None:
    assert set(names(ab.Ball)) >= {"lp", "l2", "linf"}
    assert names(Attack) == tuple(name for name in names() if name in names(Attack))
    assert "pgd" not in names(ab.Ball)


def test_only_our_own_are_stored_by_their_short_name() -> None:
    """Another process may not have imported the module of a user's class yet."""
    register("my_value")(Mine)
    assert name_of(Mine) == f"{__name__}:Mine"
    assert name_of(PGD) == "pgd"


@pytest.mark.parametrize("name", ["", "My", "1st", "a b", "a:b", "é"])
def test_refuses_what_is_no_name(name) -> None:
    with pytest.raises(ab.InputError, match="name of a value: expected lower-case letters"):
        register(name)(Mine)
    assert not is_registered(name)


def test_refuses_a_name_that_is_taken() -> None:
    with pytest.raises(
        ab.InputError, match=r"expected one that is free, got 'pgd', which is .*PGD"
    ):
        register("pgd")(Mine)
    assert class_of("pgd", Attack) is PGD
    register("mine")(Mine)
    with pytest.raises(ab.InputError, match="one that is free"):
        register("mine")(Other)


def test_a_module_loaded_again_brings_its_classes_anew() -> None:
    again = dataclass(frozen=True)(type("Mine", (Value,), {"__module__": __name__}))
    register("mine")(Mine)
    register("mine")(again)
    assert class_of("mine", Value) is again


def test_names_that_are_nearly_right() -> None:
    with pytest.raises(ab.InputError, match=r"did you mean saliency\?"):
        class_of("salience", ab.Attribution)
    with pytest.raises(ab.InputError, match="settings follow a colon"):
        class_of("zzzzzz", ab.Attribution)


def test_modules_of_the_current_directory_come_first(tmp_path, monkeypatch) -> None:
    (tmp_path / "found_here.py").write_text("class Inner:\n    class Deeper:\n        size = 3\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert imported("found_here", "Inner.Deeper").size == 3
    assert sys.path == before
    del sys.modules["found_here"]


def test_modules_that_fail_are_told_of(tmp_path, monkeypatch) -> None:
    (tmp_path / "failing.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ab.InputError, match=r"failing: expected a module .*ZeroDivisionError"):
        imported("failing", "thing")
    before = list(sys.path)
    with pytest.raises(ab.InputError, match=r"run it where `python -c 'import missing_one'` works"):
        imported("missing_one", "thing")
    assert sys.path == before
    with pytest.raises(ab.InputError, match=r"pathlib:Path\.nothing: expected the name of a"):
        imported("pathlib", "Path.nothing")
    assert imported("pathlib", "Path") is Path
