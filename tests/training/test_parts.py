"""What is held out, and the fingerprint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from attribound.balls import LinfBall
from attribound.basics.errors import InputError
from attribound.training.config import InitialWeights, TrainingConfig, TrainingData
from attribound.training.parts import in_units, load_parts


def test_parts_are_disjoint_and_follow_the_seed_of_the_data() -> None:
    parts = load_parts(TrainingData("digits", limit=100, held_out=30))
    assert (len(parts.train), len(parts.held_out)) == (70, 30)
    rows = [part.read(torch.arange(len(part))).flatten(1) for part in (parts.train, parts.held_out)]
    assert torch.cdist(*rows).min() > 0
    again = load_parts(TrainingData("digits", limit=100, held_out=30))
    assert again.fingerprint == parts.fingerprint
    assert load_parts(TrainingData("digits", limit=100, held_out=30, seed=1)).fingerprint != (
        parts.fingerprint
    )


def test_the_fingerprint_sees_a_pixel_and_a_label(tmp_path) -> None:
    def fingerprint(x, y) -> str:
        np.savez(tmp_path / "x.npz", x=x, y=y)
        return load_parts(
            TrainingData(str(tmp_path / "x.npz"), part="whole", held_out=0)
        ).fingerprint

    x, y = np.zeros((5, 3), np.float32), np.array([0, 1, 0, 1, 2])
    moved, relabelled = x.copy(), y.copy()
    moved[3, 1], relabelled[0] = 1e-3, 1
    assert len({fingerprint(x, y), fingerprint(moved, y), fingerprint(x, relabelled)}) == 3


@pytest.mark.parametrize("data", [TrainingData(held_out=100, limit=100), TrainingData(limit=10**6)])
def test_more_than_there_is_is_refused(data) -> None:
    with pytest.raises(InputError, match="data: expected limit up to 1438"):
        load_parts(data)


def test_a_folder_of_images_says_which_settings_it_needs(tmp_path) -> None:
    for name, size in (("cats/a", (8, 6)), ("cats/b", (5, 9)), ("dogs/a", (8, 6))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", size).save(tmp_path / f"{name}.png")
    data = TrainingData(str(tmp_path), held_out=1)
    with pytest.raises(InputError, match=r"without parts; .* or --set data\.part=whole: held_out"):
        load_parts(data)
    with pytest.raises(InputError, match=r"one size.*; add .* or --set data\.size=128, to scale"):
        load_parts(replace(data, part="whole"))
    assert len(load_parts(replace(data, part="whole", size=4)).train) == 2


def test_on_a_table_the_network_standardises_and_the_ball_has_its_units(tmp_path) -> None:
    lines = [f"p{row},{row},{'ab'[row % 2]},{row % 2}" for row in range(10)]
    (tmp_path / "t.csv").write_text("\n".join(["who,n,c,good", *lines]))
    data = TrainingData(str(tmp_path / "t.csv"), part="whole", held_out=2, label="good", id="who")
    config = TrainingConfig(data=data, ball=LinfBall(0.1))
    parts = load_parts(data)
    made = in_units(config, parts.train)
    x = parts.train.read(torch.arange(8)).double()
    scaler = made.network["normalisation"]
    torch.testing.assert_close(torch.tensor(scaler["mean"]).double(), x.mean(0))
    assert made.ball.scale.tolist() == pytest.approx([x[:, 0].std(correction=0).item(), 0, 0])
    warm = replace(config, warm_start=InitialWeights("w"))
    assert "normalisation" not in in_units(warm, parts.train).network
