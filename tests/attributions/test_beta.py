"""The smallest beta whose copy explains as the network does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import attribound as ab
from attribound.attributions import beta as module


def network(scale: float = 1.0) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
    with torch.no_grad():
        net[0].weight.mul_(scale)
        net[0].bias.mul_(scale)
    return net


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(16, 8, generator=torch.Generator().manual_seed(1))


def test_the_first_of_the_ladder_that_is_close(x) -> None:
    found = ab.choose_beta(network(), x)
    assert found.close
    assert found.beta == [*found.tried][-1] == module.LADDER[len(found.tried) - 1]
    *before, (agree, angle) = found.tried.values()
    assert agree == 1
    assert angle < 5
    assert all(share < 1 or turned >= 5 for share, turned in before)
    assert len(before) >= 1, "20 is not close on this network: else this tests nothing"
    same = ab.fidelity(network(), ab.smooth(network(), found.beta), x)
    assert same.degrees.double().median().item() == pytest.approx(angle)
    assert "median angle is below 5 degrees (16 examples)" in repr(found)


def test_smaller_weights_need_a_larger_beta(x) -> None:
    """Softplus of beta z is that of beta times the weights."""
    assert ab.choose_beta(network(0.2), x).beta > ab.choose_beta(network(), x).beta


def test_all_attributions_must_be_close(x) -> None:
    alone = ab.choose_beta(network(), x, [ab.IntegratedGradients(steps=20)])
    both = ab.choose_beta(network(), x, [ab.IntegratedGradients(steps=20), ab.Saliency()])
    assert both.beta >= alone.beta
    assert both.tried[20.0][1] == max(
        ab.choose_beta(network(), x, [each]).tried[20.0][1]
        for each in (ab.IntegratedGradients(steps=20), ab.Saliency())
    )


def test_none_is_close(x, monkeypatch) -> None:
    monkeypatch.setattr(module, "LADDER", (0.5, 1.0))
    found = ab.choose_beta(network(), x)
    assert (found.beta, found.close) == (1.0, False)
    assert "was tried last, and is not" in repr(found)
