"""The part of ``make bench-network`` about averaged maps: goes on where it was, tells its rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import attribound as ab
import network
from relu import smoothed
from relu.networks import Network
from relu.smoothed import Smoothing
from relu.smoothed_report import report, slack_of


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """One network as small as can be, with few draws."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))

    def examples() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.rand(8, 6, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            return x, make()(x).argmax(1)

    made = Network("tiny", "MLP", "mlp", make, examples, (), ())
    monkeypatch.setattr(smoothed, "SUBJECTS", {"tiny": made})
    monkeypatch.setattr("relu.smoothed_report.SUBJECTS", {"tiny": made})
    monkeypatch.setitem(smoothed.DRAWS, "mlp", 500)
    for cached in (smoothed.chosen, smoothed.model_of):
        cached.cache_clear()
    return "tiny"


def test_it_goes_on_where_it_was(tiny: str, tmp_path: Path) -> None:
    settings = Smoothing(examples=2, networks=(tiny,))
    table = smoothed.stored(tmp_path / "smoothed.parquet")
    told: list[str] = []
    smoothed.run(table, replace(settings, examples=1), told.append)
    again = smoothed.stored(tmp_path / "smoothed.parquet")
    assert smoothed.missing(again, settings) == [(tiny, 1)]
    smoothed.run(again, settings, told.append)
    assert len(told) == 2
    assert smoothed.missing(again, settings) == []
    assert again.rows.num_rows == 2 * len(smoothed.RADII)
    other = replace(settings, seed=1)
    assert len(smoothed.missing(again, other)) == 2


def test_rows_are_what_the_library_says(tiny: str, tmp_path: Path) -> None:
    settings = Smoothing(examples=1, networks=(tiny,))
    rows = smoothed.measure((tiny, 0), settings).to_pylist()
    assert [row["epsilon"] for row in rows] == list(smoothed.RADII)
    chosen = smoothed.chosen(tiny, 0)
    saliency = ab.Saliency(smoothed.model_of(tiny))
    for row in rows:
        ball = ab.L2Ball(row["epsilon"])
        bound = ab.bound(saliency, chosen.x[:1], ball, chosen.labels[:1], ab.Smoothed(draws=500))
        assert row["degrees"] == pytest.approx(bound.degrees.item(), rel=1e-5)
        assert row["shown_degrees"] == pytest.approx(bound.shown_degrees.item(), rel=1e-5)
        assert row["attack"] <= row["degrees"] <= row["mean_only"]
        assert row["inside"] + row["outside"] <= row["scores"] == 6
        assert 0 <= row["overlap"] <= row["k"]


def test_the_report(tiny: str, tmp_path: Path) -> None:
    settings = Smoothing(examples=1, networks=(tiny,))
    text = report(smoothed.measure((tiny, 0), settings))
    for words in ("subject: the averaged map of your network", "mean-only", "Votes", "Processor"):
        assert words in text
    assert report(smoothed.SCHEMA.empty_table()) == "Of averaged maps nothing is measured yet."


def test_every_network_gets_its_first_example_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "missing", None)
    plan = [*smoothed.plan(Smoothing())]
    first = [name for name, place in plan if place == 0]
    assert first == list(smoothed.SUBJECTS)
    assert plan[: len(first)] == [(name, 0) for name in first]
    for name in ("cnn-at", "softplus-at", "narrow-at", "resnet18", "resnet50", "transformer"):
        assert name in first


def test_the_stored_rows_are_of_the_settings() -> None:
    """What is shown was measured with what the code says now."""
    rows = smoothed.stored().rows.to_pylist()
    assert rows
    for row in rows:
        name, known = row["network"], json.loads(row["settings"])
        assert known["method"] == ab.to_spec(smoothed.method_of(name), whole=True)
        assert known["attack"] == ab.to_spec(smoothed.attack_of(name), whole=True)
        assert row["attack"] <= row["degrees"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    empty = smoothed.stored(tmp_path / "none.parquet")
    assert "nothing is measured yet" in network.smoothed_told(empty)


ROOT = Path(__file__).resolve().parents[2]


def test_the_stored_report_is_that_of_the_stored_rows() -> None:
    told = network.smoothed_told(smoothed.stored())
    assert (ROOT / "benchmarks" / "smoothed.txt").read_text() == f"{told}\n"


def test_the_page_says_in_sentences_what_the_rows_say() -> None:
    """Every figure beside the tables of docs/smoothed.md, made again from what is stored."""
    page = " ".join((ROOT / "docs" / "smoothed.md").read_text().split())
    rows = [row for row in smoothed.stored().rows.to_pylist() if row["epsilon"] == 0.1]
    of = {name: [row for row in rows if row["network"] == name] for name in smoothed.SUBJECTS}

    def column(name: str, field: str) -> np.ndarray:
        return np.array([row[field] for row in of[name]])

    trained = ("cnn-at", "softplus-at", "narrow-at")
    assert all((column(name, "degrees") < 30).all() for name in trained)
    count = sum(len(of[name]) for name in trained)
    slack = sorted(
        slack_of({each: column(name, each) for each in ("degrees", "attack")}) for name in trained
    )
    anchors = sorted(np.median(column(name, "mean_only")) for name in trained)
    natural = ("narrow-nat", "resnet18", "resnet50")
    alike = sorted(np.median(column(name, "similarity")) for name in natural)
    assert all("another" in row["status"] for name in natural for row in of[name])
    others = sum("another" in row["status"] for row in of["cnn-at"])
    assert (column("resnet50", "degrees") == 180).all()
    cost = sorted(column("resnet18", "seconds"))
    for said in (
        f"(all {count} examples, 5,000 draws)",
        f"at {slack[0]:.1f} to {slack[-1]:.1f} times what the attack found",
        f"Without the variance the same draws give {anchors[0]:.0f} to {anchors[-1]:.0f}°",
        f"a cosine of {alike[0]:.2f} to {alike[-1]:.2f} with the map at the input",
        f"({others} of {len(of['cnn-at'])})",
        f"take {cost[0]:.0f} and {cost[-1]:.0f} CPU-seconds with the full ResNet-18",
        f"{np.median(column('narrow-at', 'seconds')):.0f} with that of width 16",
        f"200 draws of ResNet-50, {np.median(column('resnet50', 'seconds')):.0f} CPU-seconds",
    ):
        assert said in page, said
