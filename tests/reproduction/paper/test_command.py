"""``python -m reproduction.paper``, as a user types it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from attribound import InputError
from reproduction.paper import command
from reproduction.paper.command import paper
from reproduction.paper.registry import ITEMS

app = typer.Typer()
app.command()(paper)

PLAN = """
[common]
batch = 2
claims = ["first_order"]
maps = "none"

[kinds.paper.settings]
protocol = "paper"
attributions = ["ig:steps=2"]
claims = ["first_order", "adjusted"]

[kinds.paper.settings.attacks.pgd]
kind = "only_in"
balls = ["l2"]
attack = { kind = "repeated", times = 2, attack = { kind = "pgd", steps = 2 } }

[kinds.paper.settings.attacks.ifia]
kind = "only_in"
balls = ["linf"]
attack = { kind = "repeated", times = 2, attack = { kind = "ifia", steps = 2 } }

[data.mnist]
title = "MNIST"
name = "digits"
samples = { paper = 3 }
balls = { l2 = [0.05], linf = [0.05] }
models.ce = { model = "auditing.tiny:build" }
models.at = { model = "zoo:digits/nobody" }
"""


def reproduce(*arguments: object):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.fixture
def places(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    return ("--plan", plan, "--stored", tmp_path / "stored", "--out", tmp_path / "out")


def test_everything_of_the_paper_is_listed() -> None:
    found = reproduce("--list")
    lines = found.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ITEMS)
    assert {"verdicts", *(f"table{i}" for i in range(1, 11))} <= {*ITEMS}


def test_missing_runs_are_made_and_then_the_tables(places, tmp_path) -> None:
    found = reproduce("table3", "verdicts", "--samples", 2, *places)
    assert found.exit_code == 0
    assert "mnist/ce/paper: samples 0 to 1" in found.stderr
    assert "mnist/at/paper: not there yet: make zoo" in found.stderr
    assert str(tmp_path / "out" / "table3.tex") in found.stdout
    record = json.loads((tmp_path / "out" / "table3.json").read_text())
    rows = {row["title"]: row for row in record["blocks"][0]["rows"]}
    assert rows["CE"]["ours"][0]["n"] == 2
    assert rows["AT"]["reason"] == "not there yet: make zoo"
    assert sorted(file.name for file in (tmp_path / "stored").iterdir()) == [
        "lock",
        "paper.parquet",
    ]
    again = reproduce("table4", "--samples", 2, *places)
    assert "mnist/ce/paper: sample" not in again.stderr


def test_stored_runs_are_enough_if_one_wants(places, tmp_path) -> None:
    found = reproduce("table3", "--only-stored", "--quiet", *places)
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")
    assert not (tmp_path / "stored").exists()
    assert "not run yet" in (tmp_path / "out" / "table3.md").read_text()


@pytest.mark.parametrize("names", [(), ("table33",), ("all", "table3")])
def test_what_is_not_there_is_refused(names, places) -> None:
    with pytest.raises(InputError, match="--list says what each is"):
        reproduce(*names, *places)


@pytest.mark.parametrize(("option", "other"), [("--kind", "strong"), ("--data", "cifar10")])
def test_some_of_the_plan_is_measured(option, other, places) -> None:
    with pytest.raises(InputError, match=f'{option[2:]}: expected of .*, got "{other}"'):
        reproduce("table3", option, other, *places)
    here = {"--kind": "paper", "--data": "mnist"}[option]
    found = reproduce("table3", option, here, "--samples", 1, *places)
    assert "mnist/ce/paper: sample 0 (1 of 2)" in found.stderr


def test_what_is_unusable_is_said_in_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["paper", "table33"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err.startswith("reproduction: names: expected all, or of table1")
