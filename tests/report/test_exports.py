"""A run in the formats of other tools, and its figures."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from PIL import Image

import attribound as ab
from attribound.basics.errors import InputError
from attribound.basics.whole_files import StorageError
from attribound.report import FORMATS, escape_latex, export, figures
from report import cases


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cases.run(tmp_path_factory.mktemp("exports") / "run")


def test_parquet_has_every_row_and_what_the_run_is_made_of(run, tmp_path) -> None:
    (path,) = export(run, "parquet", tmp_path / "deep" / "rows.parquet")
    table = pq.read_table(path)
    assert table.equals(run.rows())
    described = json.loads(table.schema.metadata[b"attribound.run.json"])
    assert described["settings"] == run.manifest.settings


def test_csv_has_every_sample_bound_and_attack(run, tmp_path) -> None:
    written = export(run, "csv", tmp_path / "rows.csv")
    assert [path.name for path in written] == ["rows.csv", "rows-bounds.csv", "rows-attacks.csv"]
    samples, bounds, attacks = (pc.read_csv(path) for path in written)
    assert samples.column_names == run.samples().column_names
    deviations = run.samples()["strongest_deviation"].to_pylist()
    assert samples["strongest_deviation"].to_pylist() == deviations
    assert set(samples["attribution"].to_pylist()) == {"saliency", cases.HOSTILE}
    assert bounds.column_names == run.bounds().column_names
    assert bounds["euclidean"].to_pylist() == run.bounds()["euclidean"].to_pylist()
    assert bounds["claim"].to_pylist() == run.bounds()["claim"].to_pylist()
    assert len(bounds) == 23 * 8 * 5
    assert [*attacks.column_names, "repeats"] == run.attacks().column_names
    assert attacks["deviation"].to_pylist() == run.attacks()["deviation"].to_pylist()


def test_json_has_no_numbers_that_json_lacks(run, tmp_path) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    (path,) = export(run, "json", tmp_path / "rows.json")
    document = json.loads(path.read_text(), parse_constant=refuse)
    assert len(document["rows"]) == len(run.rows())
    first = next(row for row in document["rows"] if row["sample"] == 190)
    bounds = {bound["claim"]: bound for bound in first["bounds"]}
    assert bounds["calibrated"]["euclidean"] == "inf"
    assert bounds["calibrated"]["exceeded"] is False
    assert first["attacks"][0]["repeats"][0]["deviation"] == first["strongest"]["deviation"]
    assert len(document["summary"]) == 8
    assert document["summary"][0]["claims"]["first_order"]["exceeded"]["n"] == 23
    assert document["run"]["data"]["fingerprint"] == "sha256:data"


def test_latex_has_as_many_cells_in_every_row_and_escapes_names(run, tmp_path) -> None:
    (path,) = export(run, "latex", tmp_path / "table.tex")
    text = path.read_text()
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    plain = [line for line in lines if "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in plain} == {11}
    titles = [line for line in lines if "multicolumn" in line]
    assert len(titles) == 8
    assert r"\textless{}/script\textgreater{}" in titles[0]
    assert r"\&\$" in titles[0]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("a_b^c~d#e%f", r"a\_b\textasciicircum{}c\textasciitilde{}d\#e\%f"),
        ("two\n\nlines", "two lines"),
    ],
)
def test_nothing_in_a_name_is_a_command_of_latex(text, escaped) -> None:
    assert escape_latex(text) == escaped


def test_other_formats_are_refused(run, tmp_path) -> None:
    with pytest.raises(InputError, match="format: expected one of csv, parquet, json, latex"):
        export(run, "xlsx", tmp_path / "rows.xlsx")
    assert set(FORMATS) == {"csv", "parquet", "json", "latex"}


def test_a_place_that_cannot_be_written_is_named(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="expected to be written"):
        export(run, "csv", tmp_path / "file" / "rows.csv")


def test_latex_with_few_columns_fits_a_column_of_text(run, tmp_path) -> None:
    (path,) = export(run, "latex", tmp_path / "t.tex", columns=["angle °", "open", "exceeded"])
    text = path.read_text()
    assert r"\begin{tabular}{lrrr}" in text
    assert r"setting & angle $^\circ$ & open & exceeded \\" in text
    plain = [line for line in text.splitlines() if line.endswith(r"\\")]
    widths = {len(re.findall(r"(?<!\\)&", line)) for line in plain if "multicolumn" not in line}
    assert widths == {3}
    with pytest.raises(
        InputError, match=r"columns: expected some of samples, deviation, .*'angles'"
    ):
        export(run, "latex", tmp_path / "t.tex", columns=["angles"])
    with pytest.raises(InputError, match="columns: expected format latex, got 'csv'"):
        export(run, "csv", tmp_path / "t.csv", columns=["open"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("figures")
    chosen = cases.settings(
        attributions=(ab.IntegratedGradients(label=cases.HOSTILE),),
        balls=cases.L2,
    )
    run = cases.run(place / "run", chosen)
    return place / "deep" / "figures", figures(run, place / "deep" / "figures")


def test_there_are_three_figures_as_png_and_pdf(folder) -> None:
    place, written = folder
    assert sorted(place.iterdir()) == sorted(written)
    stem = "0-script-script-alert-1-script-img-src-x-onerror-alert-2-l2"
    assert {path.name for path in written} == {
        f"{stem}-{name}.{kind}" for name in ("scatter", "gaps", "curves") for kind in ("png", "pdf")
    }


def test_the_files_are_what_they_are_called_and_show_something(folder) -> None:
    for path in folder[1]:
        if path.suffix == ".png":
            pixels = np.asarray(Image.open(path).convert("L"))
            assert pixels.std() > 5
        else:
            assert path.read_bytes().startswith(b"%PDF-")
