"""The benchmark of top 5 pixels: what is planned, measured and said."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
import top5


def row(claim: str, image: int, kept: int, **more) -> top5.Row:
    known = {"network": top5.MLPS[0], "epsilon": 0.05, "norm": 1, "seconds": 0.5}
    return {**known, "claim": claim, "image": image, "kept": kept, **more}


def test_the_plan_has_every_cell_once() -> None:
    cells = [*top5.plan({"mlp": 2, "cnn": 1, "certified-cnn": 0})]
    keys = [tuple(cell[name] for name in top5.KEY) for cell in cells]
    assert len({*keys}) == len(keys) == 2 * 2 * 4 * 2 + 2 * 2 * 3


def test_means_are_over_images_that_all_columns_have() -> None:
    rows = [row("attack", 0, 4), row("attack", 1, 0), row("first_order", 0, 5)]
    rows += [row("first_order", 1, 5), row("mean_value", 0, 3), row("certified", 0, 2)]
    shown = top5.table(rows)
    (line,) = (each for each in shown.splitlines() if top5.MLPS[0] in each and "0.05" in each)
    assert line.split()[1:] == ["0.05", "1", "1.0", "5.0", "1.0", "3.0", "1.0", "2.0", "4.0"]
    assert shown.endswith("first_order 2 of 2, mean_value 0 of 1, certified 0 of 1")


@pytest.mark.parametrize("claim", [top5.ATTACK, *top5.CLAIMS])
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


def test_rows_are_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(top5, "STORE", tmp_path / "top5.parquet")
    assert top5.stored() == []
    top5.store([row("attack", 1, 4), row("attack", 0, 3)])
    assert [each["image"] for each in top5.stored()] == [0, 1]


def test_the_stored_table_is_shown() -> None:
    text = (top5.STORE.parents[1] / "top5.txt").read_text()
    assert text.strip("\n") == top5.table(top5.stored()).strip("\n")
    assert "certified 0 of" in text
