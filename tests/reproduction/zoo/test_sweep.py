"""The script that compares settings of a recipe."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from attribound.cli.app import app
from reproduction.zoo import sweep as script

RECIPE = """
[{name}]
epochs = 1
threads = 1
{start}
[{name}.data]
name = "digits"
limit = 200
held_out = 20
[{name}.method]
kind = "ce"
[{name}.evaluation]
attacked = 0
explained = 0
"""


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that were run, each in this process."""
    run_so_far = []

    def run(command, *, check):
        assert check
        run_so_far.append(command[3:])
        found = CliRunner().invoke(app, command[3:])
        if found.exit_code:
            raise subprocess.CalledProcessError(found.exit_code, command, found.output)

    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=run))
    return run_so_far


@pytest.fixture
def options(tmp_path) -> list[str]:
    (tmp_path / "recipes").mkdir(parents=True)
    (tmp_path / "recipes/digits.toml").write_text(RECIPE.format(name="ce", start=""))
    names = ("recipes", "runs", "to")
    return [*(word for name in names for word in (f"--{name}", str(tmp_path / name)))]


def test_trains_each_once_and_measures_on_held_out_images(
    options, commands, tmp_path, capsys
) -> None:
    given = ["digits/ce", "optimiser.lr=0.001,0.01", "--set", "batch=16", "--images", "3", *options]
    assert script.main(given) == 0
    kept = tmp_path / "to/digits/ce.json"
    rows = json.loads(kept.read_text())
    assert [row["settings"] for row in rows] == [
        ["batch=16", "optimiser.lr=0.001"],
        ["batch=16", "optimiser.lr=0.01"],
    ]
    assert all(row["images"][0] == 20 and row["images"][1] <= 3 for row in rows)
    assert len(commands) == 2
    printed = capsys.readouterr().out
    assert "20 held-out images" in printed

    assert script.main(given) == 0
    assert len(commands) == 2
    assert script.main(["digits/ce", "--table", *options]) == 0
    assert capsys.readouterr().out == 2 * printed
    page = script.markdown(tmp_path / "to")
    assert page.startswith(f"`digits/ce`: 20 held-out images, {rows[0]['images'][1]} of them")
    assert page.count("| batch=16 optimiser.lr=0.0") == 2


def test_what_the_training_starts_from_is_measured_too(options, commands, tmp_path) -> None:
    script.main(["digits/ce", "seed=0", "--images", "3", *options])
    weights = tmp_path / "runs/digits/ce/seed=0/model.safetensors"
    recipe = tmp_path / "recipes/digits.toml"
    start = f'warm_start = "{weights}"'
    recipe.write_text(recipe.read_text() + RECIPE.format(name="again", start=start))
    assert script.main(["digits/again", "seed=1", "--images", "3", *options]) == 0
    rows = json.loads((tmp_path / "to/digits/again.json").read_text())
    first = json.loads((tmp_path / "to/digits/ce.json").read_text())[0]
    assert rows[0]["start"] == str(weights)
    assert rows[0]["kendall"] == first["kendall"]
    assert rows[1]["settings"] == ["seed=1"]


def test_nothing_there(options, capsys) -> None:
    assert script.main(["digits/ce", "--table", *options]) == 0
    assert capsys.readouterr().out == "no sweep of digits/ce yet\n"
