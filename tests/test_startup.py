"""What is imported when: the package by itself next to nothing, the command line no torch."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attribound
from attribound.auditing.protocols import Protocol
from attribound.cli import offered
from attribound.results import claims
from attribound.values import class_of, names
from attribound.zoo import leaderboard

#: Runs the command line as ``attribound`` does, then prints which of these were imported.
COMMAND = """
import sys
from attribound.cli import main
sys.argv[0] = "attribound"
code = 0
try:
    main()
except SystemExit as ended:
    code = ended.code
heavy = {"torch", "numpy", "scipy", "pyarrow", "matplotlib"} & {*sys.modules}
print("\\n", code, *sorted(heavy))
"""
#: Prints which packages came with a piece of code, beyond torch's own.
IMPORTED = """
import sys
import torch
before = {*sys.modules}
exec(sys.argv[1])
print(*sorted({each.partition(".")[0] for each in {*sys.modules} - before}))
"""


def fresh(code: str, *arguments: str) -> list[str]:
    """The last line of what a new process prints."""
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return found.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--version", "0"),
        ("--help", "0"),
        ("audit --help", "0"),
        ("train --help", "0"),
        ("calibrate --help", "0"),
        ("report --help", "0"),
        ("compare --help", "0"),
        ("runs --help", "0"),
        ("zoo --help", "0"),
        ("zoo show --help", "0"),
        ("--nonsense", "2"),
        ("nonsense", "2"),
        ("audit --nonsense", "2"),
        ("audit --limit many", "2"),
        ("audit --workers 0", "2"),
        ("audit", "2"),
        ("audit --engine steam", "2"),
        ("audit --eps a,b", "2"),
        ("train", "2"),
        ("runs nowhere", "2"),
    ],
)
def test_the_command_line_answers_without_torch(line, code) -> None:
    assert fresh(COMMAND, *line.split()) == [code]


def test_the_measure_sees_torch() -> None:
    """Otherwise the test above could not fail."""
    ended, *heavy = fresh(COMMAND, "audit", "--model", "a", "--data", "b")
    assert ended == "2"
    assert "torch" in heavy


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import attribound", {"attribound"}),
        ("from attribound import IntegratedGradients, L2Ball, bound", {"attribound", "numpy"}),
        (
            "import attribound as ab; ab.claims; ab.metrics; ab.models; ab.data",
            {"attribound", "numpy"},
        ),
    ],
)
def test_only_what_is_needed_is_imported(code, allowed) -> None:
    heavy = {"scipy", "pyarrow", "pydantic", "matplotlib", "pandas", "sympy", "torch", "numpy"}
    found = {*fresh(IMPORTED, code)}
    assert "attribound" in found
    assert found & heavy <= allowed


def test_the_package_alone_has_no_torch() -> None:
    assert fresh("import sys, attribound; print('torch' in sys.modules)") == ["False"]


def test_every_public_name_is_there() -> None:
    for name in attribound.__all__:
        assert getattr(attribound, name) is not None
    assert {*attribound.__all__} <= {*dir(attribound)}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        attribound.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names_from_the_same_places() -> None:
    """The imports for them, ``__all__`` and the table of homes say one thing."""
    tree = ast.parse(Path(attribound.__file__).read_text(encoding="utf-8"))
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*seen} == {*attribound.__all__}
    for name, home in seen.items():
        if home == "attribound":
            assert getattr(attribound, name) is importlib.import_module(f"attribound.{name}")
        else:
            assert f"attribound.{attribound._HOME_OF[name]}" == home
    assert {*attribound._HOME_OF, *attribound._ROOMS} == {*seen}


def test_help_offers_what_there_is() -> None:
    def own(kind: type) -> tuple[str, ...]:
        every = names(kind)
        return tuple(n for n in every if class_of(n, kind).__module__.startswith("attribound."))

    assert own(attribound.Attribution) == offered.ATTRIBUTIONS
    assert own(Protocol) == offered.PROTOCOLS
    computed = [each for each in claims() if each.method is not None]
    ours = [each.name for each in computed if each.method.__module__.startswith("attribound.")]
    assert tuple(ours) == offered.CLAIMS
    assert leaderboard.SORTS == offered.SORTS
