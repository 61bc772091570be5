"""``attribound paper``, as a user types it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from attribound.basics.errors import InputError
from attribound.cli.paper import paper
from reproduction.paper.registry import ITEMS

app = typer.Typer()
app.command()(paper)

PLAN = """
[common]
batch = 2
claims = ["first_order"]
maps = "none"

[kinds.paper]
protocol = "paper"
attributions = ["ig:steps=2"]
attacks.pgd = { kind = "pgd", steps = 2, repeats = 2, norms = ["l2"] }
attacks.ifia = { kind = "ifia", steps = 2, repeats = 2, norms = ["linf"] }

[data.mnist]
title = "MNIST"
name = "digits"
samples = { paper = 3 }
balls = { l2 = [0.05], linf = [0.05] }
models.ce = { model = "evaluation.tiny:build" }
models.at = { model = "zoo:digits/nobody" }
"""


def attribound(*arguments: object):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.fixture
def places(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    return ("--plan", plan, "--runs", tmp_path / "runs", "--out", tmp_path / "out")


def test_everything_of_the_paper_is_listed() -> None:
    found = attribound("--list")
    lines = found.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ITEMS)
    assert {"verdicts", *(f"table{i}" for i in range(1, 11))} <= {*ITEMS}


def test_missing_runs_are_made_and_then_the_tables(places, tmp_path) -> None:
    found = attribound("table3", "verdicts", "--samples", 2, *places)
    assert found.exit_code == 0
    assert "mnist/ce/paper: 2 samples" in found.stderr
    assert "mnist/at/paper: not there yet: make zoo" in found.stderr
    assert str(tmp_path / "out" / "table3.tex") in found.stdout
    record = json.loads((tmp_path / "out" / "table3.json").read_text())
    rows = {row["title"]: row for row in record["blocks"][0]["rows"]}
    assert rows["CE"]["ours"][0]["n"] == 2
    assert rows["AT"]["reason"] == "not there yet: make zoo"
    assert (tmp_path / "runs" / "mnist" / "ce" / "paper-0-2" / "run.json").is_file()
    again = attribound("table4", "--samples", 2, *places)
    assert "mnist/ce/paper: 2 samples" not in again.stderr


def test_stored_runs_are_enough_if_one_wants(places, tmp_path) -> None:
    found = attribound("table3", "--only-stored", "--quiet", *places)
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")
    assert not (tmp_path / "runs").exists()
    assert "not run yet" in (tmp_path / "out" / "table3.md").read_text()


@pytest.mark.parametrize("names", [(), ("table33",), ("all", "table3")])
def test_what_is_not_there_is_refused(names, places) -> None:
    with pytest.raises(InputError, match="attribound paper --list says what each is"):
        attribound(*names, *places)
