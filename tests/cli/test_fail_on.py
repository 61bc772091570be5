"""``audit --smooth ... --fail-on``: a network does not pass by what holds for its copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from attribound.auditing import Run
from attribound.cli.app import app

HERE = ["--workers=1", "--threads=1"]


def run(out: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["audit", f"--out={out}", *HERE, *more])


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose bounds hold for the copy and not for the network."""
    out = tmp_path_factory.mktemp("copied") / "run"
    chosen = ["--data=digits", "--limit=8", "--attribution=saliency", "--ball=l2", "--eps=0.02"]
    made = run(out, "--model=auditing.tiny:kinked", "--smooth=20", "--claim=mean_value", *chosen)
    assert made.exit_code == 0, made.stderr
    assert "exceeded on" in made.stdout
    return out


def test_a_bound_that_holds_for_the_copy_alone_fails(copied: Path) -> None:
    bounds = Run.open(copied).bounds()
    assert not any(bounds["exceeded"].to_pylist())
    assert any(bounds["yours_exceeded"].to_pylist()), "else this tests nothing"
    assert run(copied, "--resume", "--trust", "--quiet").exit_code == 0
    assert run(copied, "--resume", "--trust", "--quiet", "--fail-on=mean_value").exit_code == 1


def test_the_summary_has_both_counts(copied: Path) -> None:
    found = json.loads(run(copied, "--resume", "--trust", "--json").stdout)
    count = sum(Run.open(copied).bounds()["yours_exceeded"].to_pylist())
    assert found["smooth"] == 20
    assert found["exceeded"]["mean_value"]["count"] == count
    assert found["yours_exceeded"]["mean_value"]["count"] == count
    (setting,) = found["settings"]
    assert setting["claims"]["mean_value"]["subject"] == "copy"
    assert setting["claims"]["mean_value"]["exceeded"]["count"] == 0
    assert setting["fidelity"]["n"] == 8


def test_the_help_says_so() -> None:
    text = " ".join(CliRunner().invoke(app, ["audit", "--help"]).stdout.replace("│", " ").split())
    assert "on the copy or on your network" in text
