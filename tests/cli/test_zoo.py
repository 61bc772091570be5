from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
from typer.testing import CliRunner

import attribound as ab
import tiny_zoo
from attribound import zoo
from attribound.auditing import summarise
from attribound.cli.app import app
from attribound.report import run_tables
from attribound.zoo import places
from attribound.zoo.storage import to_json
from report import cases


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    for seed, name in enumerate(["digits/ce-mlp", "digits/at-mlp"]):
        tiny_zoo.make(root, name, seed=seed)
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "zoo")
    monkeypatch.setattr(places, "PACKAGED", tmp_path / "package" / "models")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTRIBOUND_ZOO", str(tmp_path / "zoo"))
    return tmp_path / "zoo"


def call(*arguments: object):
    return CliRunner().invoke(app, ["zoo", *map(str, arguments)])


def test_the_leaderboard(root) -> None:
    found = call()
    assert found.exit_code == 0
    kendall = {card.name: card.measured.similarity.kendall.value for card in zoo.cards()}
    best, second = sorted(kendall, key=kendall.get, reverse=True)
    assert found.stdout.index(best) < found.stdout.index(second)
    assert f"{kendall[best]:.3f}" in found.stdout
    assert "Clean: 40 test examples." in found.stdout


def test_the_leaderboard_needs_no_weights(root) -> None:
    for file in root.rglob("*.safetensors"):
        file.unlink()
    assert "digits/ce-mlp" in call().stdout


def test_an_empty_zoo_says_so(root) -> None:
    shutil.rmtree(root)
    found = call()
    assert (found.exit_code, found.stdout) == (0, "no models\n")


def test_as_json_csv_and_markdown(root) -> None:
    rows = json.loads(call("--json", "--sort", "clean").stdout)
    assert [row["clean"] for row in rows] == sorted((row["clean"] for row in rows), reverse=True)
    lines = list(csv.DictReader(io.StringIO(call("--csv", "--sort", "clean").stdout)))
    assert [line["name"] for line in lines] == [row["name"] for row in rows]
    assert call("--markdown").stdout == zoo.markdown(zoo.cards()) + "\n"


def test_one_format_at_a_time(root) -> None:
    found = call("--json", "--csv")
    assert found.exit_code == 2
    assert "expected one of --json, --csv and --markdown" in found.stderr


def test_an_unknown_sort_is_refused(root) -> None:
    found = call("--sort", "colour")
    assert found.exit_code == 2
    assert "sort: expected one of kendall" in found.stderr


def test_show_prints_the_card(root) -> None:
    assert call("show", "digits/ce-mlp").stdout == to_json(zoo.card("digits/ce-mlp"))


def test_show_of_an_unknown_name(root) -> None:
    found = call("show", "digits/cee-mlp")
    assert found.exit_code == 2
    assert "such as digits/ce-mlp" in found.stderr


def test_the_leaderboard_as_a_page(root, tmp_path) -> None:
    done = CliRunner().invoke(app, ["leaderboard", "--out", str(tmp_path / "board.html")])
    assert done.exit_code == 0, done.output
    assert "The page: " in done.output
    page = (tmp_path / "board.html").read_text(encoding="utf-8")
    assert "digits/at-mlp" in page
    assert "digits/ce-mlp" in page


def test_runs_of_a_user_are_on_the_page_beside_those_on_the_same_samples(root, tmp_path) -> None:
    chosen = cases.settings(attributions=(ab.Saliency(),), balls=(ab.L2Ball(0.1),))
    near = cases.run(tmp_path / "runs" / "near", chosen)
    cases.run(tmp_path / "runs" / "deep" / "far", chosen, scale=2.0)
    cases.run(tmp_path / "runs" / "other", chosen, fingerprint="sha256:other", batches=2)
    out = str(tmp_path / "board.html")
    done = CliRunner().invoke(app, ["leaderboard", "--runs", str(tmp_path / "runs"), "--out", out])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "board.html").read_text(encoding="utf-8")
    first, second = page.split("<h2>fashion-mnist, samples sha256:")[1:]
    assert "<h3>saliency, l2 ε = 0.1</h3>" in first
    assert first.index("runs/near") < first.index("runs/deep/far")  # what turns least comes first
    assert "runs/other" in second.partition("</table>")[0]
    assert "16 of 24" in second
    (summary,) = summarise(near.rows())
    certified = summary.claims["certified"]
    row = first.partition("<tbody>")[2].partition("</tr>")[0]
    for text in (f"{summary.best.degrees:.1f}", f"{certified.degrees:.1f}"):
        assert f"<td>{text}</td>" in row
    assert "<td class=words>Proved in part</td>" in row
    assert "lists kept</button>" not in page  # no run was asked for lists
    assert "digits/at-mlp" in page
    assert "--runs runs" in page
    gone = CliRunner().invoke(app, ["leaderboard", "--runs", str(tmp_path / "none")])
    assert "--runs: expected a folder" in gone.output


def test_a_run_without_attacks_or_numbers_has_dashes(root, tmp_path) -> None:
    chosen = cases.settings(attributions=(ab.Saliency(),), balls=(ab.L2Ball(0.1),), attacks={})
    bare = cases.run(tmp_path / "a", chosen, claims={"first_order": 99.0})
    (table,) = run_tables([bare])
    (row,) = table.rows
    assert dict(zip(table.header, row, strict=True)) | {"run": ""} == {
        "model": "zoo:fashion-mnist/at",
        "verdict": "Not proved",
        "samples": "24",
        "accuracy": "95.7%",
        "turned °": "-",
        "allowed °": "180 (open)",
        "open": "23",
        "claim": "first-order",
        "lists kept": "-",
        "Kendall": "-",
        "top-k": "-",
        "run": "",
    }
