"""``attribound report`` and ``attribound compare``, as a user types them."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

import attribound as ab
from attribound.basics.errors import InputError
from attribound.cli.compare import compare
from attribound.cli.report import report
from report import cases

app = typer.Typer()
app.command("report")(report)
app.command("compare")(compare)


def attribound(*arguments: object):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    chosen = cases.settings(attributions=(ab.Saliency(),), balls=(ab.L2Ball(0.1),))
    return cases.run(tmp_path_factory.mktemp("cli") / "run", chosen)


def test_it_prints_the_table_and_writes_the_page(run) -> None:
    found = attribound("report", run.path)
    assert found.exit_code == 0
    assert "saliency, l2 ε = 0.1" in found.stdout
    assert f"page: {run.path / 'report.html'}" in found.stdout
    assert (run.path / "report.html").stat().st_size > 4_000_000


def test_files_for_other_tools_are_written_on_demand(run, tmp_path) -> None:
    names = ["rows.csv", "rows.parquet", "rows.json", "table.tex"]
    options = [part for name in names for part in ("--export", tmp_path / name)]
    places = ("--out", tmp_path / "page.html", "--figures", tmp_path / "figures")
    found = attribound("report", run.path, *places, *options)
    assert found.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*names, "rows-bounds.csv", "rows-attacks.csv", "page.html", "figures"]
    )
    assert "figures: 6 in" in found.stdout


def test_json_is_alone_on_standard_output(run, tmp_path) -> None:
    found = attribound("report", run.path, "--json", "--export", tmp_path / "rows.csv")
    (summary,) = json.loads(found.stdout)
    assert summary["claims"]["certified"]["exceeded"]["count"] == 0
    assert "rows.csv" in found.stderr


def test_a_file_of_another_kind_is_refused_before_anything_is_written(run, tmp_path) -> None:
    with pytest.raises(InputError, match=r"--export: expected a file that ends in \.csv"):
        attribound("report", run.path, "--out", tmp_path / "page.html", "--export", "rows.xlsx")
    assert not (tmp_path / "page.html").exists()


def test_a_folder_without_a_run_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="expected the description of a run"):
        attribound("report", tmp_path)


def test_runs_are_compared(run, tmp_path) -> None:
    other = cases.run(tmp_path / "other", cases.settings(), scale=1.5)
    found = attribound("compare", run.path, other.path)
    assert found.exit_code == 0
    assert "95 % interval" in found.stdout
    assert "23 pairs" in found.stdout
    assert "7 settings are in one of the runs only" in found.stdout
    records = json.loads(attribound("compare", run.path, other.path, "--json").stdout)
    bound = next(record for record in records if record["what"] == "first-order")
    assert bound["other"] == pytest.approx(1.5 * bound["first"])
    assert bound["clear"]


def test_one_line_and_few_columns(run, tmp_path) -> None:
    table = tmp_path / "t.tex"
    found = attribound(
        "report", run.path, "--line", "--export", table, "--columns", "open, exceeded"
    )
    assert found.stdout.count("\n") == 1
    assert found.stdout.startswith(f"{run.path}: proved in part; 24 samples; 1 settings; 1 errors")
    assert r"\begin{tabular}{lrr}" in table.read_text()
    with pytest.raises(InputError, match="--columns: expected a LaTeX table"):
        attribound("report", run.path, "--columns", "open")
    with pytest.raises(InputError, match="--line and --json: expected one, got both"):
        attribound("report", run.path, "--line", "--json")


def test_a_comparison_as_a_page(run, tmp_path) -> None:
    other = cases.run(tmp_path / "other", cases.settings(), scale=1.5)
    page = tmp_path / "page.html"
    found = attribound("compare", run.path, other.path, "--html", page)
    assert f"page: {page}" in found.stdout
    assert "2 runs compared" in page.read_text()
