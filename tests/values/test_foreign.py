"""Code of a user's own is recognised, and seen to be another when it was changed."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import attribound as ab
from attribound.attacks import PGD, BestOf, Repeated
from attribound.values import fingerprints, from_spec

MODULE = """
from dataclasses import dataclass
import attribound as ab

@dataclass(frozen=True)
class Mine(ab.Saliency):
    power: int = 2

    def _value(self, x, target):
        return super()._value(x, target) ** self.power

def score(x, target):
    return FACTOR * x
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a user's module and imports it anew."""
    monkeypatch.chdir(tmp_path)

    def write(factor: int) -> str:
        sys.modules.pop("users_own", None)
        (tmp_path / "users_own.py").write_text(MODULE.replace("FACTOR", str(factor)))
        return "users_own"

    yield write
    sys.modules.pop("users_own", None)


def test_what_is_ours_has_none() -> None:
    ours = [
        ab.Saliency(),
        ab.L2Ball(0.1),
        BestOf(PGD()),
        ab.MeanValue(),
        {"a": 3},
        None,
        torch.relu,
    ]
    assert fingerprints(*ours) == {}


def test_a_changed_file_is_another(module) -> None:
    one = fingerprints(from_spec(f"{module(1)}:Mine", ab.Attribution))
    assert one.keys() == {"users_own:Mine"}
    assert one["users_own:Mine"].startswith("sha256:")
    same = fingerprints(from_spec(f"{module(1)}:Mine", ab.Attribution))
    other = fingerprints(from_spec(f"{module(2)}:Mine", ab.Attribution))
    assert same == one
    assert other.keys() == one.keys()
    assert other != one


def test_functions_have_one_too(module) -> None:
    adopted = from_spec(f"{module(1)}:score", ab.Attribution)
    assert fingerprints(adopted).keys() == {"users_own:score"}


def test_values_inside_values_are_found(module) -> None:
    own = from_spec(f"{module(1)}:score", ab.Attribution)
    inside = [{"a": (own, [own.fn])}, Repeated(PGD())]
    assert fingerprints(*inside).keys() == {"users_own:score"}


def notebook(source: str) -> Callable:
    """A function that was typed into a notebook: its module has no file."""
    place = types.ModuleType("typed_in")
    sys.modules["typed_in"] = place
    exec(source, vars(place))
    return place.f


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x, t): return x", "def f(x, t): return -x"),
        ("def f(x, t): return 2 * x", "def f(x, t): return 3 * x"),
        ("def f(x, t): return x.sin()", "def f(x, t): return x.cos()"),
        ("def f(x, t): return [2 * a for a in x]", "def f(x, t): return [3 * a for a in x]"),
        ("def f(x, t): return (lambda: 2)()", "def f(x, t): return (lambda: 3)()"),
    ],
)
def test_what_was_typed_in_is_known_by_what_it_does(one, other) -> None:
    try:
        first, again, second = (fingerprints(notebook(source)) for source in (one, one, other))
    finally:
        sys.modules.pop("typed_in", None)
    assert first == again != second
    assert first.keys() == {"typed_in:f"}


CLASS = """
class f:
    @property
    def size(self): return 1
    @staticmethod
    def part(): return {part}
    @classmethod
    def whole(cls): return 3
"""


def test_classes_that_were_typed_in_are_known_by_their_methods() -> None:
    from attribound.values.foreign import _digest  # noqa: PLC0415

    try:
        first, again, other = (_digest(notebook(CLASS.format(part=p))) for p in (1, 1, 2))
    finally:
        sys.modules.pop("typed_in", None)
    assert first == again != other


def test_what_was_typed_in_is_the_same_in_another_process(tmp_path) -> None:
    """Sets have another order there, objects another address."""
    program = (
        "import sys, types\n"
        "from attribound.values import fingerprints\n"
        "place = types.ModuleType('typed_in'); sys.modules['typed_in'] = place\n"
        'source = \'def f(x): return x in {"a", "b", "c", "d"} or (lambda y: y + 1)(x)\'\n'
        "exec(source, vars(place))\n"
        "print(fingerprints(place.f))\n"
    )
    file = Path(tmp_path / "program.py")
    file.write_text(program)
    seen = {
        subprocess.run(
            [sys.executable, str(file)],
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
