"""Exceeded mean-value bounds are found and searched again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import attribound as ab
from attribound.models import MLP
from claim_rows import row, table
from claims import deeper

ROW = {
    "network": "mlp-at-b5",
    "attribution": "saliency",
    "ball": "l2",
    "epsilon": 0.05,
    "sample": 102,
    "attack": 1.0,
    "mean_value": 0.8,
}


def rows(first: float = 1.0, second: float = 0.5, bound: float | None = 0.8, role: str = "test"):
    return table([row(role, first, second, first_order=0.1, mean_value=bound, sample=102)])


@pytest.fixture
def net(monkeypatch) -> MLP:
    torch.manual_seed(0)
    net = MLP(6, (5,), 3, activation=lambda: torch.nn.Softplus(5.0)).eval().requires_grad_(False)
    x = torch.rand(4, 6)
    quick = ab.MeanValue(shells=1, rounds=1)
    efforts = {"defaults": quick, "more starts": replace(quick, restarts=1)}
    monkeypatch.setattr(deeper, "EFFORTS", efforts)
    monkeypatch.setattr(deeper.measure, "network", lambda name: net)
    monkeypatch.setattr(
        deeper.measure, "choice", lambda name, seed: (100 + torch.arange(4), x, net(x).argmax(1))
    )
    return net


def attained(found) -> list[float]:
    return [row["attack"] for row in deeper.exceeded(found)]


def test_only_tests_beyond_their_bound_are_exceeded() -> None:
    assert attained(rows()) == [1.0]
    assert attained(rows(bound=1.0)) == []
    assert attained(rows(role="calibration")) == []
    assert attained(rows(bound=None)) == []
    assert attained(rows(first=0.7, second=0.9)) == [0.9], "by the second pass"


def test_the_same_image_is_bounded_again(net) -> None:
    x = deeper.measure.choice("", 0)[1][2:3]
    bound = ab.bound(
        ab.Saliency(net), x, ab.L2Ball(0.05), net(x).argmax(1), deeper.EFFORTS["defaults"]
    ).euclidean.item()
    first, default, more = deeper.ratios(ROW, 0)
    assert first == pytest.approx(1 / 0.8)
    assert default == pytest.approx(1 / bound)
    assert more > 0


@pytest.mark.usefixtures("net")
def test_what_is_still_exceeded_is_counted() -> None:
    text = deeper.report(rows(), 0)  # an attack this far exceeds any bound of so small a network
    assert "Still exceeded, of 1: as measured 1, defaults 1, more starts 1" in text
    small = deeper.report(rows(first=1e-9, second=0.0, bound=1e-10), 0)
    assert "Still exceeded, of 1: as measured 1, defaults 0, more starts 0" in small
    assert "mlp-at-b5" in small
