"""Registries answer the same whatever was imported before."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import attribound
from attribound.balls import Ball
from attribound.basics import rooms
from attribound.results import claims
from attribound.values import names

SOURCES = Path(attribound.__file__).parent


@pytest.fixture
def two(tmp_path, monkeypatch) -> None:
    """Two rooms, announced in place of the library's."""
    for name in ("low_room", "high_room"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(rooms, "_rooms", ())
    rooms.announce("low_room", "high_room")
    yield
    for name in ("low_room", "high_room"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("two")
def test_a_search_opens_no_more_than_it_needs() -> None:
    assert rooms.search(lambda: "there") == "there"
    assert "low_room" not in sys.modules
    assert rooms.search(lambda: sys.modules.get("low_room")) is sys.modules["low_room"]
    assert "high_room" not in sys.modules
    assert rooms.search(lambda: None) is None
    assert "high_room" in sys.modules


@pytest.mark.usefixtures("two")
def test_all_are_opened() -> None:
    rooms.open_all()
    assert {"low_room", "high_room"} <= {*sys.modules}


#: Prints the names of a kind of values and of all claims, and takes a value and a claim by name.
ASK = """
import importlib, sys
module, kind, name = sys.argv[1:]
kind = getattr(importlib.import_module(module), kind)
from attribound.values import from_spec, names
from_spec(name, kind)
print(*names(kind))
from attribound.results import claim_named, claims
print(claim_named("mean_value").name, *claims())
"""


def fresh(code: str, *arguments: str) -> str:
    """What a new process prints."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout


@pytest.mark.parametrize(
    ("module", "kind", "name"),
    [
        ("attribound.bounding.method", "Method", "certified"),
        ("attribound.values", "Value", "trades"),
    ],
)
def test_nothing_depends_on_what_was_imported_before(module, kind, name) -> None:
    own, all_claims = fresh(ASK, module, kind, name).splitlines()
    wanted = [
        each for each in names(getattr(__import__(module, fromlist=[kind]), kind)) if _ours(each)
    ]
    assert own.split() == wanted
    assert all_claims == " ".join(["mean_value", *map(str, claims())])


def _ours(name: str) -> bool:
    """Not one that another test registered."""
    from attribound.values import class_of  # noqa: PLC0415

    return class_of(name, object).__module__.startswith("attribound.")


def test_every_module_that_registers_is_in_an_announced_room() -> None:
    """Whoever adds a room with values announces it in ``attribound/__init__.py``."""
    rooms.open_all()
    entering = re.compile(r"^(@register\(|[A-Z_]+ = register_claim\()", re.MULTILINE)
    found = [
        ".".join(("attribound", *path.relative_to(SOURCES).with_suffix("").parts))
        for path in SOURCES.rglob("*.py")
        if entering.search(path.read_text(encoding="utf-8"))
    ]
    announced = (*rooms._rooms, "attribound.results.claims")  # "attained" is part of the registry
    assert len(found) > 20
    outside = [
        each for each in found if not f"{each}.".startswith(tuple(f"{r}." for r in announced))
    ]
    assert outside == []
    assert [each for each in found if each not in sys.modules] == []
    assert "l2" in names(Ball)


FILES = sorted(SOURCES.rglob("*.py"))


def class_names(sources: Iterable[str]) -> list[str]:
    """Of all classes, nested ones too, that are for others."""
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    found = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    return [name for name in found if not name.startswith("_")]


def twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_two_classes_have_one_name() -> None:
    assert twice(class_names(file.read_text(encoding="utf-8") for file in FILES)) == set()
    assert twice(class_names(["class A: ...\nclass _B: ...", "class A: ...\nclass _B: ..."])) == {
        "A"
    }


def test_no_file_is_long() -> None:
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_there_are_few_rooms() -> None:
    top = {file.relative_to(SOURCES).parts[0] for file in FILES} - {"__init__.py"}
    assert len(top) <= 18
