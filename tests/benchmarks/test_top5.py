"""The benchmark of top 5 pixels: what is planned, measured and said.

Also: ``make bench-audits``: what it says of two sides, and that it goes on where it was.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from torch import nn

import attribound as ab
import audits
import top5
from audits import PLAN, Audited, compared, stored, write


def row(claim: str, image: int, kept: int, **more) -> top5.Row:
    known = {"network": top5.MLPS[0], "epsilon": 0.05, "norm": 1, "seconds": 0.5}
    return {**known, "claim": claim, "image": image, "kept": kept, **more}


def test_the_plan_has_every_cell_once() -> None:
    cells = [*top5.plan({"mlp": 2, "cnn": 1, "certified-cnn": 0})]
    keys = [tuple(cell[name] for name in top5.KEY) for cell in cells]
    assert len({*keys}) == len(keys) == 2 * 2 * 5 * 2 + 2 * 2 * 4


def test_means_are_over_images_that_all_columns_have() -> None:
    rows = [row("attack", 0, 4), row("attack", 1, 0), row("first_order", 0, 5)]
    rows += [row("first_order", 1, 5), row("mean_value", 0, 3), row("certified", 0, 2)]
    rows += [row(top5.AVERAGED, 0, 5, norm=None), row(top5.AVERAGED, 1, 0, norm=None)]
    shown = top5.table(rows)
    (line,) = (each for each in shown.splitlines() if top5.MLPS[0] in each and "0.05" in each)
    assert line.split()[1:] == ["0.05", "1", "1.0", "5.0", "1.0", "3.0", "1.0", "2.0", "4.0", "5.0"]
    assert shown.endswith("first_order 2 of 2, mean_value 0 of 1, certified 0 of 1")


@pytest.mark.parametrize("claim", [top5.ATTACK, *top5.CLAIMS, top5.AVERAGED])
def test_what_is_measured_is_what_reasons_say(claim) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(9, 8), nn.Softplus(5), nn.Linear(8, 3)).eval()
    attribution, x = ab.Saliency(model), torch.rand(1, 9)
    found = top5.measured(attribution, x, {"claim": claim, "epsilon": 0.05})
    said = ab.reasons(
        attribution,
        x,
        ab.L2Ball(0.05),
        5,
        by="absolute",
        attack=claim == top5.ATTACK,
        claim="first_order" if claim == top5.ATTACK else claim,
    )
    assert found["kept"] == (said.attained or said).kept.item()
    assert found["norm"] is None or 0 <= found["norm"] <= found["kept"]


def test_rows_are_kept(tmp_path) -> None:
    file = tmp_path / "top5.parquet"
    assert top5.stored(file).listed() == []
    made = [row("attack", 1, 4, norm=None), row("attack", 0, 3)]
    for each in made:
        top5.stored(file).add(pa.Table.from_pylist([each], top5.SCHEMA))
    assert top5.stored(file).listed() == made[::-1]
    assert top5.stored(file).keys() == {tuple(each[name] for name in top5.KEY) for each in made}


def test_the_stored_table_is_shown() -> None:
    text = (top5.STORE.parents[1] / "top5.txt").read_text()
    assert text.strip("\n") == top5.table(top5.stored().listed()).strip("\n")
    assert "certified 0 of" in text


def side(seconds: float, bound: float, attack: float, delta: list[float]) -> Audited:
    return Audited(seconds, [({"mean_value": bound}, {"weak": 0.1, "strong": attack}, delta)])


def test_both_sides_are_compared_image_by_image() -> None:
    before = [side(3.0, 2.0, 1.0, [0.0, 1.0]), side(6.0, 4.0, 1.0, [0.0, 1.0])]
    after = [side(2.0, 2.0, 1.0, [0.0, 1.0]), side(1.0, 3.0, 0.5, [0.25, 1.0])]
    found = compared(before, after)
    assert (found["images"], found["seconds"], found["before/now"]) == ("2", "1.5", "3.00")
    assert found["rounds"] == "1.50-6.00"
    assert (found["mean-value"], found["lowest"]) == ("-12.50%", "-25.00%")
    assert (found["attacks"], found["weakest"]) == ("-25.00%", "-50.00%")
    assert found["apart"] == "2e-01"


def test_an_attack_alone_has_no_bounds() -> None:
    both = [Audited(1.0, [({}, {"ifia": 1.0}, [0.0])])]
    found = compared(both, both)
    assert (found["mean-value"], found["lowest"], found["apart"]) == ("-", "-", "0e+00")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(audits, "TEXT", tmp_path / "audits.txt")
    return tmp_path / "audits.txt"


def test_rows_are_read_as_they_were_written(text: Path) -> None:
    assert stored() == {}
    one = [side(2.0, 1.0, 1.0, [])]
    rows = {case: [*case, *compared(one, one).values()] for case in [*PLAN][:2]}
    write(rows, "fdd97a4")
    assert stored() == rows
    last = text.read_text().splitlines()[-1]
    assert last.startswith("not measured yet") == (max(PLAN.values()) > 1)


def test_it_goes_on_where_it_was(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sides in turn, a few images at a time; what is there is not made again."""
    made: list[tuple[str, range]] = []

    def audited(root: Path, network: str, protocol: str, images: range) -> Audited:
        made.append((root.name, images))
        sample = side(1.0, 1.0, 1.0, []).samples
        return Audited(2.0 if root.name == "before" else 1.0, sample * len(images))

    monkeypatch.setattr(audits, "audited", audited)
    monkeypatch.setattr(audits.subprocess, "run", lambda *_, **__: None)
    asked = ["audits.py", "--networks", "SmallCNN", "--protocols", "quick", "--images", "6"]
    monkeypatch.setattr(sys, "argv", asked)
    audits.main()
    here = audits.ROOT.name
    assert made == [
        ("before", range(4)),
        (here, range(4)),
        ("before", range(4, 6)),
        (here, range(4, 6)),
    ]
    assert stored()["SmallCNN", "quick"][2:5] == ["6", "0.3", "2.00"]
    assert capsys.readouterr().out == text.read_text()
    audits.main()
    assert len(made) == 4
    monkeypatch.setattr(sys, "argv", [*asked, "--anew"])
    audits.main()
    assert len(made) == 8
