"""``attribound calibrate``, as a user types it: from a run to an audit that uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribound.bounding.calibrated import Calibration
from attribound.cli.app import app

AUDIT = (
    *(
        "audit",
        "--model",
        "auditing.tiny:varied",
        "--data",
        "digits",
        "--attribution",
        "saliency",
    ),
    *(
        "--ball",
        "l2",
        "--ball",
        "linf",
        "--eps",
        "0.3",
        "--eps",
        "0.01",
        "--claim",
        "first-order",
        "--quiet",
    ),
    *("--workers", "1", "--threads", "1", "--set", 'attacks={"a": {"kind": "ascent", "steps": 2}}'),
)


def attribound(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate") / "run"
    found = attribound(*AUDIT, "--skip", 6, "--limit", 25, "--out", folder)
    assert found.exit_code == 0, found.output
    return folder


def test_from_a_run_to_an_audit_with_calibrated_bounds(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "factors"
    found = attribound("calibrate", run, "--trust", "--out", out)
    assert found.exit_code == 0, found.output
    names = ["00-saliency-l2-0.3.json", "01-saliency-linf-0.01.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    factors = [Calibration.load(out / name).factor for name in names]
    assert "with probability >= 0.95" in found.stdout
    assert "linf:epsilon=0.01,low=0.0,high=1.0" in found.stdout
    assert all(f"{factor:.4g}" in found.stdout for factor in factors)
    audited = attribound(
        *(each for each in AUDIT if each != "--quiet"),
        *("--set", f"calibrated.folder={out}", "--limit", 6),
        *("--out", tmp_path / "new", "--json"),
    )
    assert audited.exit_code == 0, audited.output
    for each, factor in zip(json.loads(audited.stdout)["settings"], factors, strict=True):
        claims = each["claims"]
        assert claims["calibrated"]["mean"] == pytest.approx(
            factor * claims["first_order"]["mean"], rel=1e-4
        )


def test_json_is_alone_on_standard_output(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "factors"
    options = ("--alpha", 0.4, "--by-class", "--base", "first-order", "--json")
    found = attribound("calibrate", run, "--trust", "--out", out, *options)
    first, second = json.loads(found.stdout)
    assert first["ball"] == {"kind": "l2", "epsilon": 0.3}
    assert second["ball"]["kind"] == "linf"
    assert (first["alpha"], first["base"]) == (0.4, "first_order")
    stored = Calibration.load(out / "00-saliency-l2-0.3.json")
    for each in first["factors"]:
        factor = stored.factor_of(each["class"])
        assert each["factor"] == (factor if factor < float("inf") else None)
        assert each["samples"] == stored.counts[each["class"]]
    assert None in {each["factor"] for each in first["factors"]}, "a rare class has none"


def test_a_folder_with_something_in_it_is_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    found = attribound("calibrate", run, "--trust", "--out", tmp_path)
    assert found.exit_code == 2
    assert "expected a new or empty folder" in found.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_too_few_samples_are_said_in_one_line(run: Path, tmp_path: Path) -> None:
    found = attribound("calibrate", run, "--trust", "--out", tmp_path / "new", "--alpha", 0.01)
    assert found.exit_code == 2
    assert "expected 99 or more" in found.output
    assert not (tmp_path / "new").exists()


def test_samples_of_a_calibration_are_not_audited(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "factors"
    assert attribound("calibrate", run, "--trust", "--out", out).exit_code == 0
    stored = Calibration.load(out / "00-saliency-l2-0.3.json")
    assert len(stored.provenance.samples) == 25
    found = attribound(
        *(*AUDIT, "--set", f"calibrated.folder={out}", "--limit", 7), "--out", tmp_path / "new"
    )
    assert found.exit_code == 2
    assert "got 1 of 7, the first with index" in found.output
    assert "--skip N" in found.output
