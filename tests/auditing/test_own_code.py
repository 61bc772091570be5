"""Classes of a user's own module in an audit: named, sent to workers, recognised by their code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import attribound as ab
from attribound.auditing.audit import audit
from attribound.auditing.engines import LocalEngine, Work
from attribound.auditing.engines.work import Results
from attribound.auditing.rows import untimed
from attribound.auditing.settings import read_settings
from attribound.auditing.store import Run
from attribound.values import registry
from auditing import tiny

CODE = '''
"""What a user writes."""

from dataclasses import dataclass

import torch

import attribound as ab


@dataclass(frozen=True)
class Rows(ab.AutogradAttribution):
    """The gradient, summed over each row of the image."""

    power: int = 1

    def map(self, x, target):
        logits = self.classifier.model(x).gather(1, target[:, None]).sum()
        (slope,) = torch.autograd.grad(logits, x, create_graph=True)
        return slope.sum(-1).flatten(1) ** self.power


@dataclass(frozen=True, eq=False, repr=False)
class Border(ab.L2Ball):
    """Only the inside of the image may change."""

    name = "inside"

    def scaling(self, x):
        scale = torch.zeros_like(x)
        scale[..., 1:-1, 1:-1] = 1
        return scale


@dataclass(frozen=True)
class Corner(ab.attacks.Attack):
    """Random points at the border of the ball."""

    tries: int = 3
    seed: int = 0

    def __call__(self, attribution, x, ball, target=None):
        found = [
            ab.attacks.judge(attribution, x, ball.sample_sphere(x, self.seed + i), target)
            for i in range(self.tries)
        ]
        return max(found, key=lambda each: each.deviation.sum().item())

    def seeded(self, seed):
        return Corner(self.tries, self.seed + seed)


@dataclass(frozen=True)
class Tripled(ab.Method):
    """Three times the first-order bound, which promises nothing."""

    factor: float = 3.0

    def bound(self, question):
        first = question.by(ab.FirstOrder)
        value = self.factor * first.euclidean
        return ab.restate(first, value, TRIPLED, ("tripled",) * len(value), first.products)


TRIPLED = ab.register_claim(
    ab.Claim("tripled", title="tripled", order=15, promise="None at all.", method=Tripled)
)
'''
SETTINGS: dict[str, Any] = {"batch": 2, "maps": "all", "limit": 4}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, imported, and forgotten with all that it registered."""
    claims = importlib.import_module("attribound.results.claims")
    for module, name in ((claims, "_claims"), (registry, "_named"), (registry, "_names")):
        monkeypatch.setattr(module, name, {**getattr(module, name)})
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "own_pieces.py").write_text(CODE)
    monkeypatch.syspath_prepend(folder)
    try:
        yield importlib.import_module("own_pieces")
    finally:
        sys.modules.pop("own_pieces", None)


def own(mine: Any) -> dict[str, Any]:
    return {
        "attributions": mine.Rows(),
        "balls": mine.Border(0.4),
        "claims": ["first_order", mine.Tripled(4.0)],
        "attacks": {"mine": mine.Corner()},
        **SETTINGS,
    }


def test_they_go_through_an_audit_with_two_workers(mine: Any, tmp_path: Path) -> None:
    here = audit("auditing.tiny:build", "digits", engine=LocalEngine(threads=1), **own(mine))
    there = audit("auditing.tiny:build", "digits", engine=LocalEngine(2), **own(mine))
    assert untimed(there.rows()).equals(untimed(here.rows()))
    assert there.maps().equals(here.maps())
    rows = there.rows().to_pylist()
    assert {row["error"] for row in rows} == {None}
    assert {(row["attribution"], row["ball"]) for row in rows} == {("own_pieces:Rows", "inside")}
    assert {(row["features"], row["scores"]) for row in rows} == {(64, 8)}
    for row in rows:
        assert [each["attack"] for each in row["attacks"]] == ["mine"]
        first, tripled = row["bounds"]
        assert (first["claim"], tripled["claim"]) == ("first_order", "tripled")
        assert tripled["euclidean"] == pytest.approx(4 * first["euclidean"], rel=1e-6)
        assert tripled["source"] == "tripled"
    deltas = torch.tensor(there.maps()["delta"].to_pylist()).reshape(-1, 8, 8)
    assert (deltas[:, 0] == 0).all()
    assert (deltas[:, :, -1] == 0).all()
    assert (deltas != 0).any()


def test_bounds_are_those_of_the_library_for_the_same_objects(mine: Any) -> None:
    net = tiny.build()
    run = audit(net, "digits", engine=LocalEngine(threads=1), **own(mine))
    x = torch.tensor(run.maps()["input"].to_pylist()).reshape(-1, 1, 8, 8)
    expected = ab.bound(mine.Rows(net.eval()), x, mine.Border(0.4)).euclidean.tolist()
    bounds = run.bounds().to_pylist()
    found = [each["euclidean"] for each in bounds if each["claim"] == "first_order"]
    assert found == pytest.approx(expected, rel=1e-4)


def test_texts_name_them_as_well(mine: Any) -> None:
    texts = {
        "attributions": "own_pieces:Rows",
        "balls": "own_pieces:Border:epsilon=0.4",
        "claims": ["first_order", "tripled:factor=4.0"],
        "attacks": {"mine": "own_pieces:Corner"},
    }
    run = audit(
        "auditing.tiny:build", "digits", engine=LocalEngine(threads=1), **{**SETTINGS, **texts}
    )
    expected = audit("auditing.tiny:build", "digits", engine=LocalEngine(threads=1), **own(mine))
    assert untimed(run.rows()).equals(untimed(expected.rows()))
    settings = read_settings(run.manifest.settings)
    assert type(settings.attributions[0]) is mine.Rows
    assert settings.claims == (ab.FirstOrder(), mine.Tripled(4.0))


def test_run_json_names_their_code(mine: Any) -> None:
    run = audit(tiny.build(), "digits", engine=LocalEngine(threads=1), **own(mine))
    assert sorted(run.manifest.inputs) == [
        "own_pieces:Border",
        "own_pieces:Corner",
        "own_pieces:Rows",
        "own_pieces:Tripled",
    ]
    assert all(each.startswith("sha256:") for each in run.manifest.inputs.values())


def test_resuming_after_the_code_changed_is_refused_and_names_it(mine: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    given = {"engine": LocalEngine(threads=1), "out": folder}
    audit("auditing.tiny:build", "digits", **given, **own(mine))
    part = folder / "parts" / "00001.parquet"
    before = Run.open(folder).rows()
    part.unlink()
    audit("auditing.tiny:build", "digits", resume=True, **given, **own(mine))
    assert untimed(Run.open(folder).rows()).equals(untimed(before)), "the same code goes on"
    file = Path(str(mine.__file__))
    file.write_text(file.read_text().replace("range(self.tries)", "range(self.tries + 1)"))
    with pytest.raises(ab.InputError, match=r"own_pieces:Corner was .sha256:.*is .sha256:") as no:
        audit("auditing.tiny:build", "digits", resume=True, **given, **own(mine))
    assert "inputs.own_pieces:Rows was" in str(no.value), "the file is one"
    plain = {**own(mine), "attributions": "saliency", "balls": "l2:epsilon=0.4"}
    with pytest.raises(ab.InputError, match=r'settings.balls.0.kind was "own_pieces:Border"'):
        audit("auditing.tiny:build", "digits", resume=True, **given, **plain)


def test_code_that_changes_during_an_audit_ends_it(mine: Any) -> None:
    """Workers import it anew: their rows would be others."""
    file = Path(str(mine.__file__))

    class Late:
        def run(self, work: Work, numbers: Iterable[int]) -> Results:
            file.write_text(file.read_text() + "\n# changed\n")
            return LocalEngine(2).run(work, numbers)

    with pytest.raises(ab.InputError, match="the files and code that the audit began with"):
        audit("auditing.tiny:build", "digits", engine=Late(), **own(mine))
