"""What is made with the library uses its public names only."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "reproduction"
FILES = sorted(FOLDER.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Modules, and the names that are taken from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not looked into"
            yield from ((node.module or "", alias.name) for alias in node.names)


def offered(module: str) -> set[str]:
    """What ``attribound`` or one of its rooms says is for others."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    return {*names} if names is not None else {n for n in vars(found) if not n.startswith("_")}


def private(source: str) -> list[str]:
    """Everything a module takes from the library that is not public."""
    faults = []
    for module, name in imported(ast.parse(source)):
        if module.partition(".")[0] != "attribound":
            continue
        if module.count(".") > 1:
            faults.append(module)
        elif name is not None and name not in offered(module):
            is_room = module == "attribound" and _room(name)
            faults += [] if is_room else [f"{module}:{name}"]
    return faults


def _room(name: str) -> bool:
    try:
        importlib.import_module(f"attribound.{name}")
    except ImportError:
        return False
    return not name.startswith("_")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_only_public_names_are_imported(file) -> None:
    assert private(file.read_text(encoding="utf-8")) == []


def test_there_is_something_to_look_at() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in FILES)
    assert len(FILES) > 20
    assert sources.count("from attribound") > 20


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from attribound.auditing.rows import SCHEMA", "attribound.auditing.rows"),
        ("import attribound.zoo.places", "attribound.zoo.places"),
        (
            "def f():\n    from attribound.basics.errors import InputError",
            "attribound.basics.errors",
        ),
        ("from attribound.auditing import SCHEMA", "attribound.auditing:SCHEMA"),
        ("from attribound import InputErrors", "attribound:InputErrors"),
        ("from attribound import _LATER", "attribound:_LATER"),
    ],
)
def test_another_name_is_seen(source, fault) -> None:
    assert private(source) == [fault]


@pytest.mark.parametrize(
    "source",
    [
        "import attribound as ab",
        "from attribound import auditing, zoo",
        "from attribound.auditing import Cell, cells",
        "from attribound.operators import dense",
        "import numpy.linalg.tests",
        "from reproduction.paper.figures.drawing import note",
    ],
)
def test_public_names_pass(source) -> None:
    assert private(source) == []
